//! Addresses in the namespace of a session. The IPv4 addresses are from the range of RFC 6333,
//! which is not routed on any network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Address of the host: DNS at port 53, the explicit proxy at [`PROXY_PORT`].
pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfd73, 0x616e, 0x6462, 0, 0, 0, 0, 1);

/// Source address of connections of the session.
pub const BOX_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
pub const BOX_V6: Ipv6Addr = Ipv6Addr::new(0xfd73, 0x616e, 0x6462, 0, 0, 0, 0, 2);

/// Port of the explicit proxy, for programs that are configured to use it.
pub const PROXY_PORT: u16 = 3128;

/// Port of the listener that the kernel delivers all TCP connections to.
pub const TCP_LISTENER_PORT: u16 = 1;

/// Returns the address family number.
pub(crate) fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    family.to_le_bytes()[0]
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
