//! Parses the TLS ClientHello.

use std::{collections::HashSet, net::IpAddr};

use sandbar_core::DomainName;

use super::{MAX_OPENING_BYTES, Opening};

/// Fields of a ClientHello that the gateway judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    pub(crate) name: Sni,
    /// It has Encrypted Client Hello: the real server name may be another one that only the server
    /// can decrypt.
    pub(crate) has_ech: bool,
}

/// Server name indication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sni {
    Absent,
    Named(DomainName),
    /// Malformed or ambiguous: a server might read another name than the gateway.
    Unusable,
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const MAX_RECORD_BYTES: usize = 1 << 14;
const SERVER_NAME: u16 = 0;

const UNUSABLE: Opening = Opening::Tls(ClientHello {
    name: Sni::Unusable,
    has_ech: false,
});

/// Parses a ClientHello, however it is split into records; `Other` when this is not TLS.
pub(super) fn read(bytes: &[u8]) -> Opening {
    match *bytes {
        [] | [20..=24 | 0x80..=0xff] => Opening::Unfinished,
        [HANDSHAKE, 3, ..] => records(bytes),
        // Some servers skip other record types before a ClientHello, and some do not check the
        // version, so that these are TLS too.
        [20..=24, 3, ..] | [HANDSHAKE, ..] => UNUSABLE,
        [0x80..=0xff, ref rest @ ..] => version_2(rest),
        _ => Opening::Other,
    }
}

/// Recognises a ClientHello in SSL 2 format, which has no server name.
fn version_2(rest: &[u8]) -> Opening {
    match *rest {
        [_, CLIENT_HELLO, 0, 2, ..] | [_, CLIENT_HELLO, 3, _, ..] => Opening::Tls(ClientHello {
            name: Sni::Absent,
            has_ech: false,
        }),
        [] | [_] | [_, CLIENT_HELLO] | [_, CLIENT_HELLO, 0 | 3] => Opening::Unfinished,
        _ => Opening::Other,
    }
}

/// Joins the records and parses the ClientHello as soon as it is complete.
fn records(mut bytes: &[u8]) -> Opening {
    let is_at_limit = bytes.len() >= MAX_OPENING_BYTES;
    let mut message = Vec::new();
    loop {
        match *bytes {
            []
            | [HANDSHAKE]
            | [HANDSHAKE, 3]
            | [HANDSHAKE, 3, 0..=4]
            | [HANDSHAKE, 3, 0..=4, _] => break,
            [HANDSHAKE, 3, 0..=4, high, low, ref rest @ ..] => {
                let length = usize::from(u16::from_be_bytes([high, low]));
                if length == 0 || length > MAX_RECORD_BYTES {
                    return UNUSABLE;
                }
                message.extend_from_slice(&rest[..length.min(rest.len())]);
                match needed(&message) {
                    Some(needed) if message.len() + length.saturating_sub(rest.len()) > needed => {
                        return UNUSABLE;
                    }
                    Some(needed) if message.len() == needed => {
                        return hello(&message[4..]).map_or(UNUSABLE, Opening::Tls);
                    }
                    Some(_) => {}
                    None => return UNUSABLE,
                }
                bytes = rest.get(length..).unwrap_or_default();
            }
            _ => return UNUSABLE,
        }
    }
    if is_at_limit {
        UNUSABLE
    } else {
        Opening::Unfinished
    }
}

/// Returns the length of the message with its header, as far as it is known; `None` when it is not
/// a ClientHello or too long.
fn needed(message: &[u8]) -> Option<usize> {
    match *message {
        [] | [CLIENT_HELLO] | [CLIENT_HELLO, 0] | [CLIENT_HELLO, 0, _] => Some(MAX_OPENING_BYTES),
        [CLIENT_HELLO, 0, high, low, ..] => Some(4 + usize::from(u16::from_be_bytes([high, low]))),
        _ => None,
    }
}

/// Parses the body of a ClientHello; `None` if any part is malformed.
fn hello(body: &[u8]) -> Option<ClientHello> {
    let mut body = Reader(body);
    let [3, _] = *body.take(2)? else { return None };
    body.take(32)?;
    let session = body.short_vector()?;
    let suites = body.long_vector()?;
    let compressions = body.short_vector()?;
    if session.len() > 32
        || suites.is_empty()
        || !suites.len().is_multiple_of(2)
        || compressions.is_empty()
    {
        return None;
    }
    let mut found = ClientHello {
        name: Sni::Absent,
        has_ech: false,
    };
    if body.0.is_empty() {
        return Some(found);
    }
    let mut extensions = Reader(body.long_vector()?);
    if !body.0.is_empty() {
        return None;
    }
    let mut kinds = HashSet::new();
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.long_vector()?;
        if !kinds.insert(kind) {
            return None;
        }
        match kind {
            SERVER_NAME => found.name = server_name(content).map_or(Sni::Unusable, Sni::Named),
            // Encrypted Client Hello, its drafts, and its predecessor ESNI.
            0xfe08..=0xfe0d | 0xffce => found.has_ech = true,
            _ => {}
        }
    }
    Some(found)
}

/// Returns the server name if there is exactly one and it is not an IP address.
fn server_name(content: &[u8]) -> Option<DomainName> {
    let mut content = Reader(content);
    let mut list = Reader(content.long_vector()?);
    let [0] = *list.take(1)? else { return None };
    let name = std::str::from_utf8(list.long_vector()?).ok()?;
    if !content.0.is_empty() || !list.0.is_empty() || name.parse::<IpAddr>().is_ok() {
        return None;
    }
    name.parse().ok()
}

/// Reads from the front of a slice; `None` when it is too short.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        let taken = self.take(2)?;
        Some(u16::from_be_bytes([taken[0], taken[1]]))
    }

    fn short_vector(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(length.into())
    }

    fn long_vector(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }
}
