//! As much of DER as a certificate needs.

use jiff::{Timestamp, tz::TimeZone};

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// A value with its tag and length before it.
pub(crate) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut value = vec![tag];
    match (digits, u8::try_from(digits.len())) {
        ([], _) => value.push(0),
        ([short], _) if *short < 0x80 => value.push(*short),
        (long, count) => {
            value.push(0x80 | count.unwrap_or(u8::MAX));
            value.extend_from_slice(long);
        }
    }
    value.extend_from_slice(content);
    value
}

pub(crate) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

pub(crate) fn set(part: &[u8]) -> Vec<u8> {
    tagged(SET, part)
}

/// `[number]` around the value, as explicit tags are.
pub(crate) fn explicit(number: u8, value: &[u8]) -> Vec<u8> {
    tagged(0xa0 | number, value)
}

/// `[number]` in place of the tag of a plain value.
pub(crate) fn implicit(number: u8, content: &[u8]) -> Vec<u8> {
    tagged(0x80 | number, content)
}

pub(crate) fn boolean(value: bool) -> Vec<u8> {
    tagged(BOOLEAN, &[if value { 0xff } else { 0 }])
}

/// A number that is not negative, from its big-endian digits.
pub(crate) fn integer(digits: &[u8]) -> Vec<u8> {
    let zeros = digits.iter().take_while(|byte| **byte == 0).count();
    let digits = &digits[zeros.min(digits.len().saturating_sub(1))..];
    let sign: &[u8] = if digits.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
    tagged(INTEGER, &[sign, digits].concat())
}

/// Bits, the last `unused` of which do not count.
pub(crate) fn bits(unused: u8, bytes: &[u8]) -> Vec<u8> {
    tagged(BIT_STRING, &[&[unused], bytes].concat())
}

pub(crate) fn octets(bytes: &[u8]) -> Vec<u8> {
    tagged(OCTET_STRING, bytes)
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    tagged(UTF8_STRING, text.as_bytes())
}

/// An object identifier of at least two parts.
pub(crate) fn object<const N: usize>(parts: [u32; N]) -> Vec<u8> {
    let (top, rest) = match parts.as_slice() {
        [first, second, rest @ ..] => (first * 40 + second, rest),
        _ => (0, &[] as &[u32]),
    };
    let mut content = Vec::new();
    for part in std::iter::once(top).chain(rest.iter().copied()) {
        let groups = (u32::BITS - part.leading_zeros()).div_ceil(7).max(1);
        for group in (0..groups).rev() {
            let seven = (part >> (group * 7)).to_be_bytes()[3] & 0x7f;
            content.push(if group == 0 { seven } else { seven | 0x80 });
        }
    }
    tagged(OBJECT_IDENTIFIER, &content)
}

/// A moment to the second: in the short form up to 2049, as certificates must have it.
pub(crate) fn time(moment: Timestamp) -> Vec<u8> {
    let civil = moment.to_zoned(TimeZone::UTC);
    if civil.year() < 2050 {
        tagged(UTC_TIME, civil.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        tagged(GENERALIZED_TIME, civil.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
    }
}

/// The first value of some: its tag, its content, and what comes after it.
pub(crate) fn split(values: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = values.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        // Four bytes count more than any certificate has.
        let known = !digits.is_empty() && digits.len() <= 4;
        let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        (known.then_some(length)?, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_split_again() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; length];
            let values = [octets(&content), integer(&[5])].concat();
            assert_eq!(split(&values), Some((OCTET_STRING, &content[..], &[2, 1, 5][..])));
        }
        for bad in [&[][..], &[4], &[4, 2, 0], &[4, 0x80], &[4, 0x85, 0, 0, 0, 0, 1, 7], &[4, 0xff]] {
            assert_eq!(split(bad), None);
        }
    }

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        assert_eq!(octets(&[]), [4, 0]);
        assert_eq!(octets(&[7; 127])[..2], [4, 127]);
        assert_eq!(octets(&[7; 128])[..3], [4, 0x81, 128]);
        assert_eq!(octets(&[7; 256])[..4], [4, 0x82, 1, 0]);
    }

    #[test]
    fn numbers_are_short_and_never_negative() {
        assert_eq!(integer(&[0]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0, 5]), [2, 1, 5]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[]), [2, 1, 0]);
    }

    #[test]
    fn object_identifiers_are_as_the_standard_has_them() {
        assert_eq!(object([1, 2, 840, 10045, 4, 3, 2]), [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]);
        assert_eq!(object([2, 5, 29, 15]), [6, 3, 0x55, 0x1d, 0x0f]);
    }

    #[test]
    fn years_from_2050_have_four_digits() {
        let at = |text: &str| time(text.parse().unwrap());
        assert_eq!(at("2026-11-15T19:05:09Z"), [b"\x17\x0d".as_slice(), b"261115190509Z"].concat());
        assert_eq!(at("2050-01-01T00:00:00Z"), [b"\x18\x0f".as_slice(), b"20500101000000Z"].concat());
    }
}
