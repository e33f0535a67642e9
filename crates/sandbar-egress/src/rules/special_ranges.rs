//! Address ranges that are not part of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sandbar_core::AddressRange;

/// Kind of an address that is not public, with its name for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    /// Open only if the policy lists it.
    Private(&'static str),
    /// Never open: no host has such an address.
    Never(&'static str),
}

use Special::{Never, Private};

const V4: [(AddressRange, Special); 13] = [
    (
        AddressRange::v4([0, 0, 0, 0], 8),
        Never("an address that means this host"),
    ),
    (
        AddressRange::v4([127, 0, 0, 0], 8),
        Private("the host's own loopback"),
    ),
    (
        AddressRange::v4([10, 0, 0, 0], 8),
        Private("a private address"),
    ),
    (
        AddressRange::v4([172, 16, 0, 0], 12),
        Private("a private address"),
    ),
    (
        AddressRange::v4([192, 168, 0, 0], 16),
        Private("a private address"),
    ),
    (
        AddressRange::v4([100, 64, 0, 0], 10),
        Private("an address shared by a carrier"),
    ),
    (
        AddressRange::v4([169, 254, 169, 254], 32),
        Private("the cloud's metadata service"),
    ),
    // Azure's metadata service, which returns credentials of the machine. Its address lies in a
    // public range.
    (
        AddressRange::v4([168, 63, 129, 16], 32),
        Private("the cloud's metadata service"),
    ),
    (
        AddressRange::v4([169, 254, 0, 0], 16),
        Private("a link-local address"),
    ),
    (
        AddressRange::v4([192, 0, 0, 0], 24),
        Private("an address for protocols"),
    ),
    (
        AddressRange::v4([198, 18, 0, 0], 15),
        Private("an address for benchmarks"),
    ),
    (
        AddressRange::v4([224, 0, 0, 0], 4),
        Never("a multicast address"),
    ),
    (
        AddressRange::v4([240, 0, 0, 0], 4),
        Never("a reserved address"),
    ),
];

const V6: [(AddressRange, Special); 8] = [
    (
        AddressRange::v6(Ipv6Addr::UNSPECIFIED, 128),
        Never("an address that means this host"),
    ),
    (
        AddressRange::v6(Ipv6Addr::LOCALHOST, 128),
        Private("the host's own loopback"),
    ),
    (
        AddressRange::v6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128),
        Private("the cloud's metadata service"),
    ),
    (
        AddressRange::v6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
        Private("a private address"),
    ),
    (
        AddressRange::v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
        Private("a link-local address"),
    ),
    (
        AddressRange::v6(Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10),
        Private("a site-local address"),
    ),
    (
        AddressRange::v6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
        Never("a multicast address"),
    ),
    (
        AddressRange::v6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64),
        Never("an address that drops everything"),
    ),
];

/// Returns the kind of an address; `None` when it is public. An IPv6 address with an embedded IPv4
/// address has the kind of that one.
pub(super) fn special(address: IpAddr) -> Option<Special> {
    let address = address.to_canonical();
    let table: &[(AddressRange, Special)] = if address.is_ipv4() { &V4 } else { &V6 };
    if let Some((_, what)) = table.iter().find(|(range, _)| range.contains(address)) {
        return Some(*what);
    }
    embedded_ipv4(address).and_then(special)
}

/// Returns the IPv4 address that a translator or a tunnel would send this to. Without this check, a
/// session on a network with NAT64 could reach `169.254.169.254` as `64:ff9b::a9fe:a9fe`.
pub(super) fn embedded_ipv4(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    let (high, low) = match address.segments() {
        // NAT64, with the well-known and the local-use prefix (RFC 8215); the position of the IPv4
        // address depends on the network, the last 32 bits are usual. IPv4-compatible and
        // IPv4-translated addresses. 6to4.
        [0x64, 0xff9b, 0 | 1, _, _, _, high, low]
        | [0, 0, 0, 0, 0 | 0xffff, 0, high, low]
        | [0x2002, high, low, ..] => (high, low),
        // Teredo stores it inverted (RFC 4380).
        [0x2001, 0, _, _, _, _, high, low] => (!high, !low),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Special> {
        special(text.parse().unwrap())
    }

    #[test]
    fn public_address_is_not_special() {
        for public in [
            "8.8.8.8",
            "203.0.113.7",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "2001:db8::1",
            "64:ff9b::808:808",
        ] {
            assert_eq!(of(public), None, "{public}");
        }
    }

    #[test]
    fn metadata_service_is_not_public() {
        for service in [
            "169.254.169.254",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b::a83f:8110",
            "fd00:ec2::254",
        ] {
            assert_eq!(
                of(service),
                Some(Private("the cloud's metadata service")),
                "{service}"
            );
        }
        assert_eq!(of("168.63.129.17"), None);
    }

    #[test]
    fn embedded_ipv4_address_decides_the_kind() {
        for hidden in [
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "2001:0:1:2:3:4:5601:5601",
        ] {
            assert_eq!(
                of(hidden),
                Some(Private("the cloud's metadata service")),
                "{hidden}"
            );
        }
        assert!(matches!(of("2002:7f00:1::"), Some(Private(_))));
        assert!(matches!(of("::127.0.0.1"), Some(Private(_))));
    }
}
