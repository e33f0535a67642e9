//! As much of DNS as a test needs.

use std::net::IpAddr;

use super::zone::Zone;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const NAME_ERROR: u8 = 3;

/// A question: its name, its type, and where it ends.
pub(super) struct Question {
    pub(super) name: String,
    pub(super) kind: u16,
    end: usize,
}

pub(super) fn question(message: &[u8]) -> Option<Question> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(message.get(at..at + length)?).into_owned());
        at += length;
    }
    let kind = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
    Some(Question {
        name: labels.join("."),
        kind,
        end: at + 4,
    })
}

/// The answer to a question, by what the zone says.
pub(super) fn answer(message: &[u8], asked: &Question, zone: &Zone) -> Vec<u8> {
    let found = zone.find(&asked.name, asked.kind == AAAA);
    let mut records = Vec::new();
    let mut owner = asked.name.clone();
    let mut count = 0_u16;
    let found_or_nothing = found.as_ref();
    for alias in found_or_nothing
        .into_iter()
        .flat_map(|found| &found.aliases)
    {
        record(&mut records, &owner, CNAME, &name(alias));
        owner.clone_from(alias);
        count += 1;
    }
    for address in found_or_nothing
        .into_iter()
        .flat_map(|found| &found.addresses)
    {
        match address {
            IpAddr::V4(address) if asked.kind == A => {
                record(&mut records, &owner, A, &address.octets());
            }
            IpAddr::V6(address) if asked.kind == AAAA => {
                record(&mut records, &owner, AAAA, &address.octets());
            }
            _ => continue,
        }
        count += 1;
    }
    let mut reply = message[..2].to_vec();
    // An answer with authority, by a server that also asks others, as the question wanted it.
    reply.extend([
        0x84 | message[2] & 1,
        0x80 | if found.is_none() { NAME_ERROR } else { 0 },
    ]);
    reply.extend([0, 1]);
    reply.extend(count.to_be_bytes());
    reply.extend([0; 4]);
    reply.extend(&message[12..asked.end]);
    reply.extend(records);
    reply
}

fn record(records: &mut Vec<u8>, owner: &str, kind: u16, data: &[u8]) {
    records.extend(name(owner));
    records.extend(kind.to_be_bytes());
    records.extend([0, 1]);
    // Not to be remembered, so that every answer of the zone counts.
    records.extend(0_u32.to_be_bytes());
    records.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    records.extend(data);
}

fn name(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in text.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
