//! How long a certificate is valid.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use crate::der::{GENERALIZED_TIME, SEQUENCE, UTC_TIME, split};

/// The moment a certificate runs out; `None` when it is none.
pub fn valid_until(certificate: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = content(certificate, SEQUENCE)?;
    let (body, _) = content(certificate, SEQUENCE)?;
    // The version, which may be absent, the serial number, the algorithm and the issuer come before.
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

fn moment(tag: u8, digits: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(digits).ok()?;
    let text = match tag {
        // Years of two digits are those from 1950 to 2049.
        UTC_TIME => format!("{}{text}", if text.get(..2)? < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::KeyPair as _;

    use super::*;
    use crate::{Purpose, Statement, key::new_key};

    fn certificate(until: &str) -> Vec<u8> {
        let key = new_key().unwrap();
        Statement {
            issuer: "a",
            subject: "a",
            key: key.public_key().as_ref(),
            valid: "2026-01-01T00:00:00Z".parse().unwrap()..=until.parse().unwrap(),
            purpose: Purpose::Authority,
        }
        .sign(&key)
        .unwrap()
    }

    #[test]
    fn the_end_is_read_back_in_either_form_of_time() {
        for until in ["2026-11-15T19:05:09Z", "2049-12-31T23:59:59Z", "2050-01-01T00:00:00Z", "2101-02-03T04:05:06Z"] {
            assert_eq!(valid_until(&certificate(until)), Some(until.parse().unwrap()));
        }
    }

    #[test]
    fn whatever_is_no_certificate_has_no_end_and_breaks_nothing() {
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
