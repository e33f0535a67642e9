//! Reads the expiry date of a certificate. A full X.509 parser would add 16 dependencies for this.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;

/// Returns when a certificate expires (`notAfter`); `None` if it is not a certificate.
pub fn valid_until(certificate: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = content(certificate, SEQUENCE)?;
    let (body, _) = content(certificate, SEQUENCE)?;
    // Skips the optional version, the serial number, the algorithm and the issuer.
    let mut rest = body;
    if rest.first() == Some(&0xa0) {
        (_, _, rest) = split(rest)?;
    }
    for _ in 0..3 {
        (_, _, rest) = split(rest)?;
    }
    let (validity, _) = content(rest, SEQUENCE)?;
    let (_, _, end) = split(validity)?;
    let (tag, digits, _) = split(end)?;
    moment(tag, digits)
}

fn content(value: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = split(value)?;
    (tag == wanted).then_some((content, rest))
}

/// Splits the first value off: its tag, its content, and the bytes after it.
fn split(values: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = values.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        // No certificate is longer than four bytes can express.
        let known = !digits.is_empty() && digits.len() <= 4;
        let length = digits
            .iter()
            .fold(0, |length, digit| length << 8 | usize::from(*digit));
        (known.then_some(length)?, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

fn moment(tag: u8, digits: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(digits).ok()?;
    let text = match tag {
        // Two-digit years are 1950 to 2049 (RFC 5280).
        UTC_TIME => format!("{}{text}", if text.get(..2)? < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn certificate(until: &str) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.not_after = SystemTime::from(until.parse::<Timestamp>().unwrap()).into();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn malformed_length_is_refused() {
        assert_eq!(
            split(&[4, 2, 7, 7, 2, 1, 5]),
            Some((4, &[7, 7][..], &[2, 1, 5][..]))
        );
        assert_eq!(split(&[4, 0x81, 1, 7, 2]), Some((4, &[7][..], &[2][..])));
        for bad in [
            &[][..],
            &[4],
            &[4, 2, 0],
            &[4, 0x80],
            &[4, 0x85, 0, 0, 0, 0, 1, 7],
            &[4, 0xff],
        ] {
            assert_eq!(split(bad), None);
        }
    }

    #[test]
    fn expiry_is_read_from_both_time_formats() {
        for until in [
            "2026-11-15T19:05:09Z",
            "2049-12-31T23:59:59Z",
            "2050-01-01T00:00:00Z",
            "2101-02-03T04:05:06Z",
        ] {
            assert_eq!(
                valid_until(&certificate(until)),
                Some(until.parse().unwrap())
            );
        }
    }

    #[test]
    fn malformed_certificate_has_no_expiry() {
        let whole = certificate("2030-01-01T00:00:00Z");
        for length in 0..whole.len() {
            assert_eq!(valid_until(&whole[..length]), None, "{length}");
        }
        for position in 0..whole.len() {
            for value in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut bent = whole.clone();
                bent[position] = value;
                let _ = valid_until(&bent);
            }
        }
    }
}
