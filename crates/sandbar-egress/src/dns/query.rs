//! Decodes a DNS query and encodes its answer.

use std::net::IpAddr;

use hickory_proto::{
    op::{Edns, Header, Message, MessageType, Metadata, OpCode, Query as Question, ResponseCode},
    rr::{DNSClass, RData, Record},
    serialize::binary::{BinDecodable as _, BinDecoder},
};

/// Largest datagram that is not fragmented in practice (DNS Flag Day 2020).
pub(crate) const MAX_DATAGRAM_BYTES: usize = 1232;
/// Largest datagram for clients without EDNS.
const DEFAULT_DATAGRAM_BYTES: usize = 512;
/// Largest message over TCP.
pub(crate) const MAX_STREAM_BYTES: usize = u16::MAX as usize;
/// Limit of additional records in a query: one for EDNS, and signatures.
const MAX_ADDITIONALS: u16 = 4;

/// Content of the answer to a question.
pub(super) struct Reply {
    pub(super) code: ResponseCode,
    pub(super) answers: Vec<Record>,
}

impl Reply {
    pub(super) const fn of(code: ResponseCode) -> Self {
        Self {
            code,
            answers: Vec::new(),
        }
    }
}

/// Role of the server in its answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// Resolves names with other servers.
    Recursive,
    /// Is the authority for the names.
    Authoritative,
}

/// A decoded and checked query.
pub(super) enum ParsedQuery {
    /// The answer depends on the question.
    Open(Query, Question),
    /// The answer is an error, whatever the question.
    Settled(Query, Reply),
}

/// Parts of a query that its answer repeats.
pub(super) struct Query {
    head: Metadata,
    question: Option<Question>,
    edns: Option<Edns>,
}

impl ParsedQuery {
    /// Decodes a query; `None` if the message must not be answered.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header = Header::read(&mut BinDecoder::new(bytes)).ok()?;
        if header.message_type == MessageType::Response {
            return None;
        }
        let query = Query {
            head: header.metadata,
            question: None,
            edns: None,
        };
        if header.op_code != OpCode::Query {
            return Some(Self::Settled(query, Reply::of(ResponseCode::NotImp)));
        }
        let Some((question, edns)) = read_question(&header, bytes) else {
            return Some(Self::Settled(query, Reply::of(ResponseCode::FormErr)));
        };
        let settled = if edns.as_ref().is_some_and(|edns| edns.version() > 0) {
            Some(ResponseCode::BADVERS)
        } else if question.query_class() != DNSClass::IN {
            Some(ResponseCode::Refused)
        } else {
            None
        };
        let query = Query {
            question: Some(question.clone()),
            edns,
            ..query
        };
        Some(match settled {
            Some(code) => Self::Settled(query, Reply::of(code)),
            None => Self::Open(query, question),
        })
    }
}

/// Decodes the one question of a query. The counts are checked first, because the decoder allocates
/// memory for as many records as the header claims. A query has one question, no answers and no
/// trailing bytes.
fn read_question(header: &Header, bytes: &[u8]) -> Option<(Question, Option<Edns>)> {
    let counts = header.counts;
    if header.truncation
        || (counts.queries, counts.answers, counts.authorities) != (1, 0, 0)
        || counts.additionals > MAX_ADDITIONALS
    {
        return None;
    }
    let mut decoder = BinDecoder::new(bytes);
    let mut message = Message::read(&mut decoder)
        .ok()
        .filter(|_| decoder.is_empty())?;
    Some((message.queries.pop()?, message.edns))
}

impl Query {
    /// Encodes the answer. One of more than `max_bytes` is truncated, so that the client asks again
    /// over TCP, where `max_bytes` is [`MAX_STREAM_BYTES`]. Datagrams are also limited by the size
    /// that the client announced.
    pub(super) fn answer(self, reply: Reply, role: Role, max_bytes: usize) -> Option<Vec<u8>> {
        let limit = match &self.edns {
            _ if max_bytes >= MAX_STREAM_BYTES => MAX_STREAM_BYTES,
            Some(edns) => max_bytes.min(DEFAULT_DATAGRAM_BYTES.max(edns.max_payload().into())),
            None => max_bytes.min(DEFAULT_DATAGRAM_BYTES),
        };
        let mut message = Message::response(self.head.id, self.head.op_code);
        message.metadata = Metadata::response_from_request(&self.head);
        message.metadata.response_code = reply.code;
        match role {
            Role::Recursive => message.metadata.recursion_available = true,
            Role::Authoritative => message.metadata.authoritative = true,
        }
        message.queries.extend(self.question);
        message.answers = reply.answers;
        message.edns = self.edns.map(|_| {
            let mut edns = Edns::new();
            edns.set_max_payload(u16::try_from(MAX_DATAGRAM_BYTES).unwrap_or(u16::MAX));
            edns
        });
        let bytes = message.to_vec().ok()?;
        if bytes.len() <= limit {
            Some(bytes)
        } else {
            message.truncate().to_vec().ok()
        }
    }
}

/// Returns the record that answers a question with an address.
pub(super) fn address_record(question: &Question, address: IpAddr, ttl: u32) -> Record {
    Record::from_rdata(question.name().clone(), ttl, RData::from(address))
}
