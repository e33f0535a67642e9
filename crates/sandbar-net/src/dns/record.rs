//! Records, and the kinds of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::name::WireName;

/// What a record is about.
pub(super) mod kind {
    pub(in crate::dns) const A: u16 = 1;
    pub(in crate::dns) const NS: u16 = 2;
    pub(in crate::dns) const CNAME: u16 = 5;
    pub(in crate::dns) const SOA: u16 = 6;
    pub(in crate::dns) const PTR: u16 = 12;
    pub(in crate::dns) const MX: u16 = 15;
    pub(in crate::dns) const TXT: u16 = 16;
    pub(in crate::dns) const AAAA: u16 = 28;
    pub(in crate::dns) const SRV: u16 = 33;
    pub(in crate::dns) const OPT: u16 = 41;
    pub(in crate::dns) const SVCB: u16 = 64;
    pub(in crate::dns) const HTTPS: u16 = 65;
    pub(in crate::dns) const CAA: u16 = 257;
}

/// The one class that is in use.
pub(super) const INTERNET: u16 = 1;

/// Something known about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) name: WireName,
    pub(super) kind: u16,
    pub(super) class: u16,
    pub(super) ttl: u32,
    /// Names in it are not compressed, so that it can stand in any message.
    pub(super) data: Vec<u8>,
}

impl Record {
    pub(super) fn of_address(name: WireName, address: IpAddr, ttl: u32) -> Self {
        let (kind, data) = match address {
            IpAddr::V4(address) => (kind::A, address.octets().to_vec()),
            IpAddr::V6(address) => (kind::AAAA, address.octets().to_vec()),
        };
        Self { name, kind, class: INTERNET, ttl, data }
    }

    /// Reads a record at `at`, and moves that behind it.
    pub(super) fn read(message: &[u8], at: &mut usize) -> Option<Self> {
        let name = WireName::read(message, at)?;
        let fixed = message.get(*at..*at + 10)?;
        let number = |place: usize| u16::from_be_bytes([fixed[place], fixed[place + 1]]);
        let kind = number(0);
        let start = *at + 10;
        let end = start + usize::from(number(8));
        let data = read_data(message, kind, start, end)?;
        *at = end;
        let ttl = u32::from(number(4)) << 16 | u32::from(number(6));
        Some(Self { name, kind, class: number(2), ttl, data })
    }

    pub(super) fn write(&self, message: &mut Vec<u8>, is_name_of_question: bool) {
        if is_name_of_question {
            message.extend_from_slice(&[0xc0, 12]);
        } else {
            message.extend_from_slice(self.name.as_bytes());
        }
        for number in [self.kind, self.class] {
            message.extend_from_slice(&number.to_be_bytes());
        }
        message.extend_from_slice(&self.ttl.to_be_bytes());
        let length = u16::try_from(self.data.len()).unwrap_or(u16::MAX);
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(&self.data[..length.into()]);
    }

    /// The address, in the family it means.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self.kind {
            kind::A => <[u8; 4]>::try_from(self.data.as_slice()).ok().map(|octets| Ipv4Addr::from(octets).into()),
            kind::AAAA => <[u8; 16]>::try_from(self.data.as_slice())
                .ok()
                .map(|octets| IpAddr::from(Ipv6Addr::from(octets)).to_canonical()),
            _ => None,
        }
    }

    /// The name that this one is another name of.
    pub(super) fn alias_of(&self) -> Option<WireName> {
        (self.kind == kind::CNAME).then(|| WireName::read(&self.data, &mut 0)).flatten()
    }
}

/// The data of a record with its names written out. What it must consist of is checked for the kinds that are used.
fn read_data(message: &[u8], kind: u16, start: usize, end: usize) -> Option<Vec<u8>> {
    let raw = message.get(start..end)?;
    let (before, names, after) = match kind {
        kind::A => return (raw.len() == 4).then(|| raw.to_vec()),
        kind::AAAA => return (raw.len() == 16).then(|| raw.to_vec()),
        kind::NS | kind::CNAME | kind::PTR => (0, 1, 0),
        kind::SOA => (0, 2, 20),
        kind::MX => (2, 1, 0),
        kind::SRV => (6, 1, 0),
        _ => return Some(raw.to_vec()),
    };
    let mut data = raw.get(..before)?.to_vec();
    let mut at = start + before;
    for _ in 0..names {
        data.extend_from_slice(WireName::read(&message[..end], &mut at)?.as_bytes());
    }
    let rest = message.get(at..end).filter(|rest| rest.len() == after)?;
    data.extend_from_slice(rest);
    Some(data)
}
