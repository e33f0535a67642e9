//! Address ranges as E2B writes them, and their subtraction.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A CIDR range of one address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    first: u128,
    bits: u32,
    /// Address bits of the family: 32 or 128.
    width: u32,
}

impl Range {
    /// Parses an address or a range. Host bits are cleared, as E2B does: `8.8.8.8/24` is
    /// `8.8.8.0/24`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let (number, width) = match address.parse::<IpAddr>().ok()? {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let bits = match bits {
            None => width,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|bits| *bits <= width)?
            }
            Some(_) => return None,
        };
        Some(Self {
            first: number & mask(bits, width),
            bits,
            width,
        })
    }

    /// Returns whether it contains every address of its family.
    pub(super) fn is_everything(self) -> bool {
        self.bits == 0
    }

    fn contains(self, other: Self) -> bool {
        self.width == other.width
            && self.bits <= other.bits
            && other.first & mask(self.bits, self.width) == self.first
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// Subtracts `other`. The result has at most one range per address bit.
    pub(super) fn without(self, other: Self) -> Vec<Self> {
        if other.contains(self) {
            return Vec::new();
        }
        if !self.contains(other) {
            return vec![self];
        }
        // Of every range that is wider by one bit, the half without `other`.
        let sibling = |bits: u32| Self {
            first: (other.first & mask(bits, self.width)) ^ (1 << (self.width - bits)),
            bits,
            width: self.width,
        };
        (self.bits + 1..=other.bits).map(sibling).collect()
    }
}

/// Returns the mask of the upper `bits`.
fn mask(bits: u32, width: u32) -> u128 {
    let all = u128::MAX >> (128 - width);
    all & all.checked_shl(width - bits).unwrap_or(0)
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.first) {
            Ok(first) if self.width == 32 => {
                write!(f, "{}/{}", Ipv4Addr::from_bits(first), self.bits)
            }
            _ => write!(f, "{}/{}", Ipv6Addr::from_bits(self.first), self.bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        Range::parse(text).unwrap()
    }

    #[test]
    fn range_is_parsed_as_e2b_does() {
        assert_eq!(range("8.8.8.8/24"), range("8.8.8.0/24"));
        assert_eq!(range("1.1.1.1").to_string(), "1.1.1.1/32");
        assert_eq!(range("2001:db8::7/32").to_string(), "2001:db8::/32");
        assert!(range("0.0.0.0/0").is_everything() && range("::/0").is_everything());
        for bad in [
            "",
            "1.1.1",
            "1.1.1.1/33",
            "1.1.1.1/x",
            "1.1.1.1/-1",
            "example.com",
            "::/129",
        ] {
            assert_eq!(Range::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn subtraction_leaves_everything_but_the_other_range() {
        let left = range("8.8.8.0/24").without(range("8.8.8.8"));
        assert_eq!(left.len(), 8);
        for last in 0..=255 {
            let address = range(&format!("8.8.8.{last}"));
            let denied = left.iter().filter(|range| range.contains(address)).count();
            assert_eq!(denied, usize::from(last != 8), "{address}");
        }
        assert_eq!(
            range("10.0.0.0/8").without(range("8.8.8.8")),
            [range("10.0.0.0/8")]
        );
        assert!(range("10.1.0.0/16").without(range("10.0.0.0/8")).is_empty());
        assert_eq!(
            range("0.0.0.0/0").without(range("128.0.0.0/1")),
            [range("0.0.0.0/1")]
        );
        assert_eq!(range("::/0").without(range("10.0.0.0/8")), [range("::/0")]);
        assert_eq!(
            range("2001:db8::/32").without(range("2001:db8::1")).len(),
            96
        );
    }
}
