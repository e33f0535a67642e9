//! The addresses of the host itself. Nothing on the host is reached from a session unless its policy names it.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long an answer of the kernel is good for. Addresses change rarely, and connections come in crowds.
const FRESH: Duration = Duration::from_secs(1);

/// The addresses of every interface of the host.
#[derive(Debug, Default)]
pub(crate) struct HostAddresses {
    known: Mutex<Option<(Instant, Arc<[IpAddr]>)>>,
}

impl HostAddresses {
    pub(crate) fn now(&self) -> Arc<[IpAddr]> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let old = match &*known {
            Some((at, addresses)) if at.elapsed() < FRESH => return Arc::clone(addresses),
            Some((_, addresses)) => Some(Arc::clone(addresses)),
            None => None,
        };
        let addresses = match of_interfaces() {
            Ok(addresses) => addresses.into(),
            Err(error) => {
                tracing::warn!(%error, "could not read the addresses of this host");
                old.unwrap_or_default()
            }
        };
        *known = Some((Instant::now(), Arc::clone(&addresses)));
        addresses
    }
}

fn of_interfaces() -> std::io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: getifaddrs writes a list to the pointer when it succeeds, and nothing is read when it does not.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mut addresses = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the list is whole until it is freed below, and ends with a null pointer.
        let interface = unsafe { &*next };
        // SAFETY: an address is null or a socket address as long as its family says.
        addresses.extend(unsafe { address(interface.ifa_addr) });
        next = interface.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// # Safety
/// `address` is null or points to a socket address that is as long as its family says.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller says that a socket address is there; every one begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a `sockaddr_in`; it may lie anywhere, hence the unaligned read.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a `sockaddr_in6`.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_among_the_addresses_of_a_host() {
        let host = HostAddresses::default();
        assert!(host.now().contains(&Ipv4Addr::LOCALHOST.into()), "{:?}", host.now());
    }
}
