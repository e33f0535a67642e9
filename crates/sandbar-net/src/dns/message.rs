//! Messages: one question, its answers, and nothing else that matters here.

use super::{
    name::WireName,
    record::{INTERNET, Record, kind},
};

/// Bits of the second word of a message.
pub(super) mod flag {
    pub(in crate::dns) const RESPONSE: u16 = 0x8000;
    pub(in crate::dns) const OPERATION: u16 = 0x7800;
    pub(in crate::dns) const AUTHORITATIVE: u16 = 0x0400;
    pub(in crate::dns) const TRUNCATED: u16 = 0x0200;
    pub(in crate::dns) const RECURSION_DESIRED: u16 = 0x0100;
    pub(in crate::dns) const RECURSION_AVAILABLE: u16 = 0x0080;
    pub(in crate::dns) const CODE: u16 = 0x000f;
}

/// How it went.
pub(super) mod code {
    pub(in crate::dns) const NO_ERROR: u16 = 0;
    pub(in crate::dns) const FORMAT_ERROR: u16 = 1;
    pub(in crate::dns) const SERVER_FAILURE: u16 = 2;
    pub(in crate::dns) const NO_SUCH_NAME: u16 = 3;
    pub(in crate::dns) const NOT_IMPLEMENTED: u16 = 4;
    pub(in crate::dns) const REFUSED: u16 = 5;
    /// Does not fit the flags: its upper bits stand in the extension.
    pub(in crate::dns) const BAD_VERSION: u16 = 16;
}

/// A query or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) head: Head,
    pub(super) question: Option<Question>,
    pub(super) answers: Vec<Record>,
    pub(super) extension: Option<Extension>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) id: u16,
    pub(super) flags: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) name: WireName,
    pub(super) kind: u16,
    pub(super) class: u16,
}

/// What EDNS adds to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extension {
    /// The longest datagram the sender takes.
    pub(super) most: u16,
    pub(super) version: u8,
    pub(super) upper_code: u8,
}

impl Head {
    pub(super) const fn read(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [id_high, id_low, flags_high, flags_low, _, _, _, _, _, _, _, _, ..] => Some(Self {
                id: u16::from_be_bytes([id_high, id_low]),
                flags: u16::from_be_bytes([flags_high, flags_low]),
            }),
            _ => None,
        }
    }

    pub(super) const fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) const fn code(self) -> u16 {
        self.flags & flag::CODE
    }
}

impl Question {
    pub(super) const fn about(name: WireName, kind: u16) -> Self {
        Self { name, kind, class: INTERNET }
    }
}

impl Message {
    pub(super) const fn query(id: u16, question: Question) -> Self {
        let head = Head { id, flags: flag::RECURSION_DESIRED };
        Self { head, question: Some(question), answers: Vec::new(), extension: None }
    }

    /// Reads a whole message; `None` when anything in it is not as it must be. Of one that was cut only the question is read.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let head = Head::read(bytes)?;
        let count = |place: usize| u16::from_be_bytes([bytes[place], bytes[place + 1]]);
        let [questions, answers, authorities, additions] = [4, 6, 8, 10].map(count);
        let mut at = 12;
        let question = match questions {
            0 => None,
            1 => Some(read_question(bytes, &mut at)?),
            _ => return None,
        };
        let mut message = Self { head, question, answers: Vec::new(), extension: None };
        if head.has(flag::TRUNCATED) {
            return Some(message);
        }
        for _ in 0..answers {
            message.answers.push(Record::read(bytes, &mut at)?);
        }
        for _ in 0..authorities {
            Record::read(bytes, &mut at)?;
        }
        for _ in 0..additions {
            let record = Record::read(bytes, &mut at)?;
            if record.kind == kind::OPT && message.extension.replace(extension(&record)?).is_some() {
                return None;
            }
        }
        (at == bytes.len()).then_some(message)
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        let count = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let counts = [self.question.iter().count(), self.answers.len(), 0, self.extension.iter().count()];
        for number in [self.head.id, self.head.flags].into_iter().chain(counts.map(count)) {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        if let Some(question) = &self.question {
            bytes.extend_from_slice(question.name.as_bytes());
            bytes.extend_from_slice(&question.kind.to_be_bytes());
            bytes.extend_from_slice(&question.class.to_be_bytes());
        }
        for record in &self.answers {
            record.write(&mut bytes, self.question.as_ref().is_some_and(|question| question.name == record.name));
        }
        if let Some(Extension { most, version, upper_code }) = self.extension {
            bytes.push(0);
            bytes.extend_from_slice(&kind::OPT.to_be_bytes());
            bytes.extend_from_slice(&most.to_be_bytes());
            bytes.extend_from_slice(&[upper_code, version, 0, 0, 0, 0]);
        }
        bytes
    }
}

fn read_question(bytes: &[u8], at: &mut usize) -> Option<Question> {
    let name = WireName::read(bytes, at)?;
    let fixed = bytes.get(*at..*at + 4)?;
    *at += 4;
    Some(Question {
        name,
        kind: u16::from_be_bytes([fixed[0], fixed[1]]),
        class: u16::from_be_bytes([fixed[2], fixed[3]]),
    })
}

/// The extension in its record, which uses the fields of one for something else.
fn extension(record: &Record) -> Option<Extension> {
    let [upper_code, version, ..] = record.ttl.to_be_bytes();
    (record.name.as_bytes() == [0]).then_some(Extension { most: record.class, version, upper_code })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> WireName {
        WireName::from(&text.parse().unwrap())
    }

    fn record(name: WireName, kind: u16, data: &[u8]) -> Record {
        Record { name, kind, class: INTERNET, ttl: 60, data: data.to_vec() }
    }

    #[test]
    fn a_message_survives_the_way_there_and_back() {
        let asked = name("example.com");
        let message = Message {
            head: Head { id: 7, flags: flag::RESPONSE | code::NO_SUCH_NAME },
            question: Some(Question::about(asked.clone(), kind::A)),
            answers: vec![
                record(asked.clone(), kind::CNAME, name("b.example").as_bytes()),
                Record::of_address(name("b.example"), "203.0.113.7".parse().unwrap(), 5),
                Record::of_address(asked.clone(), "2001:db8::1".parse().unwrap(), 5),
                record(asked.clone(), kind::MX, &[b"\0\x0a", name("mx.example").as_bytes()].concat()),
                record(asked.clone(), kind::SOA, &[asked.as_bytes(), asked.as_bytes(), &[1; 20]].concat()),
                record(asked, kind::TXT, b"\x02hi"),
            ],
            extension: Some(Extension { most: 1232, version: 0, upper_code: 1 }),
        };
        assert_eq!(Message::read(&message.write()), Some(message));
    }

    #[test]
    fn compressed_names_in_records_are_written_out() {
        let mut bytes = Message::query(7, Question::about(name("example.com"), kind::MX)).write();
        bytes[7] = 1;
        bytes.extend_from_slice(b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x07\0\x05\x02mx\xc0\x0c");
        let read = Message::read(&bytes).unwrap();
        assert_eq!(read.answers[0].name, name("example.com"));
        assert_eq!(read.answers[0].data, [b"\0\x05", name("mx.example.com").as_bytes()].concat());
    }

    #[test]
    fn what_is_not_as_it_must_be_is_refused() {
        let whole = Message::query(7, Question::about(name("example.com"), kind::A)).write();
        for cut in 0..whole.len() {
            assert_eq!(Message::read(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(Message::read(&[whole.as_slice(), b"x"].concat()), None);
        let with = |place: usize, value: u8| {
            let mut bytes = whole.clone();
            bytes[place] = value;
            bytes
        };
        for (place, value) in [(5, 2), (7, 1), (9, 1), (11, 1), (12, 64)] {
            assert_eq!(Message::read(&with(place, value)), None, "{place}");
        }
        let short_address = [with(7, 1).as_slice(), b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x03\x01\x02\x03"].concat();
        assert_eq!(Message::read(&short_address), None);
        let option = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";
        assert!(Message::read(&[with(11, 1).as_slice(), option].concat()).is_some());
        assert_eq!(Message::read(&[with(11, 2).as_slice(), option, option].concat()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_and_what_is_read_can_be_written(
            counts in prop::array::uniform4(0_u8..3),
            rest in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(0xc0), Just(12), any::<u8>()], 0..200),
        ) {
            let [questions, answers, authorities, additions] = counts;
            let mut bytes = vec![0, 7, 0, 0, 0, questions, 0, answers, 0, authorities, 0, additions];
            bytes.extend(rest);
            if let Some(message) = Message::read(&bytes) {
                prop_assert_eq!(Message::read(&message.write()), Some(message));
            }
        }
    }
}
