//! Names as messages hold them.

use std::fmt;

use sandbar_core::DomainName;

const MOST_BYTES: usize = 255;
const MOST_LABEL: u8 = 63;

/// A name in its uncompressed form: labels with their lengths, and an empty one at the end. It keeps its case, since clients
/// look for theirs in an answer, and is compared without.
#[derive(Clone, Eq)]
pub(super) struct WireName(Vec<u8>);

impl WireName {
    /// Reads a name at `at`, and moves that behind it. Pointers only lead backwards, so none leads in a circle.
    pub(super) fn read(message: &[u8], at: &mut usize) -> Option<Self> {
        let mut name = Vec::new();
        let mut place = *at;
        let mut lowest = *at;
        let mut has_jumped = false;
        loop {
            let length = *message.get(place)?;
            match length {
                0 => {
                    name.push(0);
                    if !has_jumped {
                        *at = place + 1;
                    }
                    return (name.len() <= MOST_BYTES).then_some(Self(name));
                }
                1..=MOST_LABEL => {
                    let end = place + 1 + usize::from(length);
                    name.extend_from_slice(message.get(place..end)?);
                    if name.len() > MOST_BYTES {
                        return None;
                    }
                    place = end;
                }
                0xc0.. => {
                    let target = usize::from(u16::from_be_bytes([length & 0x3f, *message.get(place + 1)?]));
                    if target >= lowest {
                        return None;
                    }
                    if !has_jumped {
                        *at = place + 2;
                    }
                    has_jumped = true;
                    (place, lowest) = (target, target);
                }
                _ => return None,
            }
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name of a host, if it can be one.
    pub(super) fn domain(&self) -> Option<DomainName> {
        let labels: Option<Vec<&str>> =
            self.labels().map(|label| std::str::from_utf8(label).ok().filter(|label| !label.contains('.'))).collect();
        labels?.join(".").parse().ok()
    }

    /// Whether it is that name, or one below it.
    pub(super) fn is_within(&self, above: &Self) -> bool {
        let mut rest = Some(self.0.as_slice());
        while let Some(name) = rest {
            if name.eq_ignore_ascii_case(&above.0) {
                return true;
            }
            // The name without its first label.
            rest = name.split_first().and_then(|(length, after)| after.get(usize::from(*length).max(1)..));
        }
        false
    }

    fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first().filter(|(length, _)| **length > 0)?;
            let (label, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            Some(label)
        })
    }
}

impl From<&DomainName> for WireName {
    fn from(name: &DomainName) -> Self {
        let mut bytes = Vec::with_capacity(name.as_str().len() + 2);
        for label in name.as_str().split('.') {
            // The parts of a `DomainName` have at most 63 bytes.
            bytes.push(u8::try_from(label.len()).unwrap_or(MOST_LABEL));
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
        Self(bytes)
    }
}

impl PartialEq for WireName {
    fn eq(&self, other: &Self) -> bool {
        // Lengths of labels are below the letters, so ignoring case leaves them alone.
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

/// For people: what is no plain character is escaped.
impl fmt::Display for WireName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> = self.labels().map(|label| label.escape_ascii().to_string()).collect();
        if labels.is_empty() { f.write_str(".") } else { f.write_str(&labels.join(".")) }
    }
}

impl fmt::Debug for WireName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(message: &[u8], mut at: usize) -> Option<(WireName, usize)> {
        WireName::read(message, &mut at).map(|name| (name, at))
    }

    #[test]
    fn a_name_is_read_through_pointers_and_keeps_its_case() {
        let message = b"\x07Example\x03com\0\x01a\xc0\x00\x01b\xc0\x0d";
        assert_eq!(read(message, 0).unwrap(), (WireName::from(&"example.com".parse().unwrap()), 13));
        let (name, end) = read(message, 17).unwrap();
        assert_eq!((name.to_string().as_str(), end), ("b.a.Example.com", 21));
        assert_eq!(name.domain().unwrap().as_str(), "b.a.example.com");
    }

    #[test]
    fn pointers_that_lead_forwards_in_a_circle_or_nowhere_are_refused() {
        for (message, at) in [
            (&b"\xc0\x00"[..], 0),
            (b"\xc0\x02\x01a\0", 0),
            (b"\x01a\xc0\x00", 0),
            (b"\xc0\x02\xc0\x00", 2),
            (b"\xc0", 0),
            (b"\x40a\0", 0),
            (b"\x80a\0", 0),
            (b"\x05ab\0", 0),
            (b"\x01a", 0),
            (b"", 0),
        ] {
            assert_eq!(read(message, at), None, "{message:?}");
        }
        let long = [[b"\x3f".to_vec(), vec![b'a'; 63]].concat().repeat(4), vec![0]].concat();
        assert_eq!(read(&long, 0), None);
    }

    #[test]
    fn a_label_with_a_dot_in_it_is_no_two_labels() {
        let (name, _) = read(b"\x09a.example\0", 0).unwrap();
        assert_eq!(name.domain(), None);
        for other in [&b"\0"[..], b"\x01 \0", b"\x011\0", b"\x03a\xc3\xbc\0"] {
            assert_eq!(read(other, 0).unwrap().0.domain(), None, "{other:?}");
        }
    }

    #[test]
    fn a_name_is_within_itself_and_what_is_above_it() {
        let name = |text: &str| WireName::from(&text.parse().unwrap());
        for (inner, outer, is_within) in [
            ("a.example", "A.Example", true),
            ("b.a.example", "a.example", true),
            ("c.b.a.example", "a.example", true),
            ("example", "a.example", false),
            ("ba.example", "a.example", false),
            ("a.example.b", "a.example", false),
        ] {
            assert_eq!(name(inner).is_within(&name(outer)), is_within, "{inner} {outer}");
        }
        // A label that looks like the rest of a name is one label all the same.
        let (hidden, _) = read(b"\x0b\x01a\x07example\0\0", 0).unwrap();
        assert!(!hidden.is_within(&name("a.example")));
        assert!(!read(b"\0", 0).unwrap().0.is_within(&name("a.example")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(message in prop::collection::vec(any::<u8>(), 0..300), at in 0_usize..310) {
            if let Some((name, end)) = read(&message, at) {
                prop_assert!(end <= message.len() && name.as_bytes().len() <= MOST_BYTES);
                prop_assert_eq!(read(name.as_bytes(), 0), Some((name.clone(), name.as_bytes().len())));
            }
        }

        #[test]
        fn names_survive_the_way_there_and_back(text in "[a-z][a-z0-9_]{0,20}(\\.[a-z][a-z0-9_]{0,20}){0,5}") {
            let domain: DomainName = text.parse().unwrap();
            prop_assert_eq!(read(WireName::from(&domain).as_bytes(), 0).unwrap().0.domain(), Some(domain));
        }
    }
}
