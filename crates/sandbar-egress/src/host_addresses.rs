//! Addresses of the host itself. A session cannot reach them unless its policy lists them.

#![expect(unsafe_code, reason = "rustix has no `getifaddrs`")]

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use sandbar_core::MutexExt as _;

/// Time for which the list is cached. Addresses change rarely, and connections come in bursts.
const CACHE_TTL: Duration = Duration::from_secs(1);

/// Cached addresses of all interfaces of the host.
#[derive(Debug, Default)]
pub(crate) struct HostAddresses {
    known: Mutex<Option<(Instant, Arc<[IpAddr]>)>>,
}

impl HostAddresses {
    pub(crate) fn now(&self) -> Arc<[IpAddr]> {
        let mut known = self.known.lock_unpoisoned();
        let old = match &*known {
            Some((at, addresses)) if at.elapsed() < CACHE_TTL => return Arc::clone(addresses),
            Some((_, addresses)) => Some(Arc::clone(addresses)),
            None => None,
        };
        let addresses = match interface_addresses() {
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

fn interface_addresses() -> std::io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `getifaddrs` writes a list to the pointer on success; on failure nothing is read.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mut addresses = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the list is valid until it is freed below, and ends with a null pointer.
        let interface = unsafe { &*next };
        // SAFETY: an address is null or a socket address of the size of its family.
        addresses.extend(unsafe { address(interface.ifa_addr) });
        next = interface.ifa_next;
    }
    // SAFETY: the list came from `getifaddrs`, and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// # Safety
/// `address` is null or points to a socket address of the size of its family.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees a socket address; every one starts with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a `sockaddr_in`. It need not be aligned.
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
    fn host_addresses_include_the_loopback() {
        let host = HostAddresses::default();
        assert!(
            host.now().contains(&Ipv4Addr::LOCALHOST.into()),
            "{:?}",
            host.now()
        );
    }
}
