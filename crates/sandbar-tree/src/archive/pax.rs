//! Extended header records, `length keyword=value\n`, and the encoding of times and attribute names
//! in them.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::CString,
};

use rustix::fs::Timespec;

/// Keyword prefix of extended attributes, from star; tar implementations agree on it.
const XATTR: &[u8] = b"SCHILY.xattr.";

/// Limit on the records of one header: each takes more memory than the bytes it is read from.
const MAX_RECORDS: usize = 1 << 17;

/// Records of one extended header, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Records(Vec<(Vec<u8>, Vec<u8>)>);

impl Records {
    pub(super) fn push(&mut self, keyword: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.0.push((keyword.into(), value.into()));
    }

    pub(super) fn push_xattr(&mut self, name: &CString, value: &[u8]) {
        let mut keyword = XATTR.to_vec();
        for byte in name.to_bytes() {
            // `=` ends a keyword; escaped as GNU tar does.
            match byte {
                b'=' => keyword.extend_from_slice(b"%3D"),
                b'%' => keyword.extend_from_slice(b"%25"),
                byte => keyword.push(*byte),
            }
        }
        self.push(keyword, value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the last value of a keyword: later records win.
    pub(super) fn get(&self, keyword: &str) -> Option<&[u8]> {
        self.0
            .iter()
            .rev()
            .find(|(key, _)| key == keyword.as_bytes())
            .map(|(_, value)| value.as_slice())
    }

    pub(super) fn number(&self, keyword: &str) -> Option<u64> {
        number(self.get(keyword)?)
    }

    /// Returns keywords and values in order, repeated keywords included.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    pub(super) fn xattrs(&self) -> Vec<(CString, Vec<u8>)> {
        // A map by name: an archive may have hundreds of thousands of records, and a linear search
        // for each would be quadratic.
        let mut found = BTreeMap::new();
        for (keyword, value) in &self.0 {
            if let Some(name) = keyword
                .strip_prefix(XATTR)
                .and_then(|name| CString::new(unescape(name)).ok())
            {
                found.insert(name, value.clone());
            }
        }
        found.into_iter().collect()
    }

    /// Returns the bytes of all keywords and values.
    pub(super) fn size(&self) -> usize {
        self.0
            .iter()
            .map(|(keyword, value)| keyword.len() + value.len())
            .sum()
    }

    /// Applies the records of a more specific header. An empty value deletes the keyword, except
    /// for extended attributes, whose value may be empty.
    pub(super) fn overlay(&mut self, closer: Self) {
        let replaced: HashSet<&[u8]> = closer
            .0
            .iter()
            .map(|(keyword, _)| keyword.as_slice())
            .collect();
        self.0
            .retain(|(known, _)| !replaced.contains(known.as_slice()));
        self.0.extend(
            closer
                .0
                .into_iter()
                .filter(|(keyword, value)| !value.is_empty() || keyword.starts_with(XATTR)),
        );
    }

    /// Removes records with an empty value, which delete a keyword of a global header.
    pub(super) fn without_deletions(mut self) -> Self {
        self.0
            .retain(|(keyword, value)| !value.is_empty() || keyword.starts_with(XATTR));
        self
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (keyword, value) in &self.0 {
            let rest = keyword.len() + value.len() + 3;
            // The length includes its own digits.
            let mut length = rest + 1;
            while length != rest + digits(length) {
                length = rest + digits(length);
            }
            out.extend_from_slice(format!("{length} ").as_bytes());
            out.extend_from_slice(keyword);
            out.push(b'=');
            out.extend_from_slice(value);
            out.push(b'\n');
        }
        out
    }

    /// Keeps the records of a global header that later members use. The others would be copied for
    /// each member.
    pub(super) fn retain_applied(&mut self) {
        self.0.retain(|(keyword, _)| {
            matches!(
                keyword.as_slice(),
                b"path" | b"linkpath" | b"size" | b"uid" | b"gid" | b"mtime"
            ) || keyword.starts_with(XATTR)
        });
    }

    /// Parses records; `None` when the bytes are malformed, or are too many records.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut records = Vec::new();
        // Some writers pad the data with zeros.
        while bytes.first().is_some_and(|byte| *byte != 0) {
            let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
            let length = usize::try_from(number(&bytes[..space])?).ok()?;
            let record = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            if records.len() == MAX_RECORDS {
                return None;
            }
            records.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
            bytes = &bytes[length..];
        }
        Some(Self(records))
    }
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

pub(super) fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn unescape(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        let (byte, tail) = match rest {
            [b'%', b'3', b'D' | b'd', tail @ ..] => (b'=', tail),
            [b'%', b'2', b'5', tail @ ..] => (b'%', tail),
            _ => (*first, tail),
        };
        out.push(byte);
        rest = tail;
    }
    out
}

/// Formats seconds with a fraction. A time before 1970 counts down from zero: -5 s + 0.25 s is
/// `-4.75`.
pub(super) fn format_time(time: Timespec) -> String {
    match (time.tv_sec, time.tv_nsec) {
        (seconds, 0) => seconds.to_string(),
        (seconds, nanoseconds) if seconds >= 0 => format!("{seconds}.{nanoseconds:09}"),
        (seconds, nanoseconds) => {
            format!(
                "-{}.{:09}",
                (seconds + 1).unsigned_abs(),
                1_000_000_000 - nanoseconds
            )
        }
    }
}

pub(super) fn parse_time(text: &[u8]) -> Option<Timespec> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, text) = text
        .strip_prefix('-')
        .map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let nanoseconds: i64 = format!("{fraction:0<9.9}").parse().ok()?;
    Some(match (negative, nanoseconds) {
        (false, nanoseconds) => Timespec {
            tv_sec: whole,
            tv_nsec: nanoseconds,
        },
        (true, 0) => Timespec {
            tv_sec: whole.checked_neg()?,
            tv_nsec: 0,
        },
        (true, nanoseconds) => Timespec {
            tv_sec: whole.checked_neg()?.checked_sub(1)?,
            tv_nsec: 1_000_000_000 - nanoseconds,
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn record_length_includes_its_own_digits() {
        let mut records = Records::default();
        records.push("path", "x".repeat(91));
        assert!(
            records.encode().starts_with(b"101 path="),
            "{:?}",
            records.encode().escape_ascii().to_string()
        );
        records = Records::default();
        records.push("path", "x".repeat(90));
        assert!(records.encode().starts_with(b"99 path="));
    }

    #[test]
    fn decode_of_damaged_records_fails() {
        for bad in [
            "5",
            "x path=y\n",
            "99 path=y\n",
            "9 path=ab",
            "10 pathxyz\n",
            "0 a=b\n",
            "18446744073709551615 a=b\n",
        ] {
            assert!(Records::decode(bad.as_bytes()).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn xattrs_of_many_records_are_read_in_linear_time() {
        let mut records = Records::default();
        for number in 0..60_000 {
            records.push(format!("SCHILY.xattr.user.{number}"), "x");
        }
        records.push("SCHILY.xattr.user.7", "y");
        let found = records.xattrs();
        assert_eq!(found.len(), 60_000);
        assert!(found.contains(&(c"user.7".to_owned(), b"y".to_vec())));
        let mut below = records.clone();
        below.overlay(records);
        assert_eq!(below.xattrs(), found);
    }

    proptest! {
        #[test]
        fn records_round_trip(pairs in prop::collection::vec(("[a-zA-Z.]{1,40}", prop::collection::vec(any::<u8>(), 0..2000)), 0..8)) {
            let mut records = Records::default();
            for (key, value) in &pairs {
                records.push(key.as_bytes(), value.clone());
            }
            let decoded = Records::decode(&records.encode()).unwrap();
            let decoded: Vec<_> = decoded.iter().map(|(key, value)| (String::from_utf8(key.to_vec()).unwrap(), value.to_vec())).collect();
            prop_assert_eq!(decoded, pairs);
        }

        #[test]
        fn times_round_trip(tv_sec in any::<i32>(), tv_nsec in 0i64..1_000_000_000) {
            let time = Timespec { tv_sec: tv_sec.into(), tv_nsec };
            let back = parse_time(format_time(time).as_bytes()).unwrap();
            prop_assert_eq!((back.tv_sec, back.tv_nsec), (time.tv_sec, time.tv_nsec));
        }

        #[test]
        fn decode_of_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(Records::decode(&bytes));
            let _ = parse_time(&bytes);
        }
    }
}
