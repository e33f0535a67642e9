//! Address ranges in CIDR notation.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Address range such as `10.0.0.0/8`, or one address. IPv4-mapped IPv6 ranges are converted:
/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    first: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Returns a range, for constant tables. `bits` must fit the family, and the host bits be zero.
    pub const fn v4(octets: [u8; 4], bits: u8) -> Self {
        Self {
            first: IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
            bits,
        }
    }

    pub const fn v6(first: Ipv6Addr, bits: u8) -> Self {
        Self {
            first: IpAddr::V6(first),
            bits,
        }
    }

    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// Whether it is a single address.
    pub const fn is_single(&self) -> bool {
        self.bits == if self.first.is_ipv4() { 32 } else { 128 }
    }

    /// Whether the range contains the address. An IPv4-mapped address is compared as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => masked_v4(address, self.bits) == first,
            (IpAddr::V6(first), IpAddr::V6(address)) => masked_v6(address, self.bits) == first,
            _ => false,
        }
    }
}

fn masked_v4(address: Ipv4Addr, bits: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(
        address.to_bits()
            & u32::MAX
                .checked_shl(32 - u32::from(bits.min(32)))
                .unwrap_or(0),
    )
}

fn masked_v6(address: Ipv6Addr, bits: u8) -> Ipv6Addr {
    Ipv6Addr::from_bits(
        address.to_bits()
            & u128::MAX
                .checked_shl(128 - u32::from(bits.min(128)))
                .unwrap_or(0),
    )
}

impl FromStr for AddressRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Err(
                Error::invalid("network", format!("`{}` {why}", text.escape_debug())).with_hint(
                    "write an address or a range: `203.0.113.7`, `10.0.0.0/8`, `2001:db8::/32`",
                ),
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return refuse("is not an address");
        };
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => longest,
            Some(digits)
                if digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                match digits.parse::<u8>() {
                    Ok(bits) if bits <= longest => bits,
                    _ => return refuse("has a prefix longer than an address"),
                }
            }
            Some(_) => return refuse("has no prefix length after the `/`"),
        };
        let (first, bits) = match (address, address.to_canonical()) {
            (IpAddr::V6(_), IpAddr::V4(mapped)) if bits >= 96 => (IpAddr::V4(mapped), bits - 96),
            _ => (address, bits),
        };
        let begins = match first {
            IpAddr::V4(first) => masked_v4(first, bits) == first,
            IpAddr::V6(first) => masked_v6(first, bits) == first,
        };
        if !begins {
            return refuse("has host bits that are not zero");
        }
        Ok(Self { first, bits })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() {
            self.first.fmt(f)
        } else {
            write!(f, "{}/{}", self.first, self.bits)
        }
    }
}

super::policy::as_text!(AddressRange);

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    #[test]
    fn mapped_address_is_in_the_ipv4_range() {
        let ten = range("10.0.0.0/8");
        for inside in ["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"] {
            assert!(ten.contains(inside.parse().unwrap()), "{inside}");
        }
        assert!(
            !ten.contains("11.0.0.0".parse().unwrap()) && !ten.contains("::a00:1".parse().unwrap())
        );
        assert_eq!(range("::ffff:10.0.0.0/104"), ten);
        assert!(range("2001:db8::/32").contains("2001:db8:ffff::1".parse().unwrap()));
        assert!(range("0.0.0.0/0").contains("8.8.8.8".parse().unwrap()));
        assert!(!range("0.0.0.0/0").contains("2001::".parse().unwrap()));
        assert!(range("::/0").contains("2001::".parse().unwrap()));
    }

    #[test]
    fn malformed_or_misaligned_range_is_refused() {
        for bad in [
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0/8",
            "010.0.0.0/8",
            "::/129",
            "a/8",
            "",
        ] {
            assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
        }
        for text in ["10.0.0.0/8", "1.2.3.4", "2001:db8::/32", "::1"] {
            assert_eq!(range(text).to_string(), text);
        }
    }
}
