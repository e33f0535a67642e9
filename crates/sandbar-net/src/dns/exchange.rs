//! One query and its answer: the parts that are the same for every answer.

use std::net::IpAddr;

use hickory_proto::{
    op::{Edns, Header, Message, MessageType, Metadata, OpCode, Query as Question, ResponseCode},
    rr::{DNSClass, RData, Record},
    serialize::binary::{BinDecodable as _, BinDecoder},
};

/// The longest datagram that is neither cut into packets nor lost.
pub(crate) const MOST_IN_DATAGRAM: usize = 1232;
/// The longest one for clients that do not say what they take.
const SMALL_DATAGRAM: usize = 512;
/// The longest message over a connection.
pub(crate) const MOST_IN_STREAM: usize = u16::MAX as usize;
/// Additional records of a query: the one of EDNS, and signatures.
const MAX_ADDITIONALS: u16 = 4;

/// Content of the answer to a question.
pub(super) struct Reply {
    pub(super) code: ResponseCode,
    pub(super) answers: Vec<Record>,
}

impl Reply {
    pub(super) const fn of(code: ResponseCode) -> Self {
        Self { code, answers: Vec::new() }
    }
}

/// The part a server has in the answers it gives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// Looks names up elsewhere.
    Recursive,
    /// Owns the names it answers for.
    Authoritative,
}

/// A query, read and checked.
pub(super) enum Asked {
    /// The answer depends on the question.
    Open(Query, Question),
    /// The answer is the same whatever is asked.
    Settled(Query, Reply),
}

/// A query that gets an answer.
pub(super) struct Query {
    head: Metadata,
    question: Option<Question>,
    edns: Option<Edns>,
}

impl Asked {
    /// Reads a query; anything else gets no answer.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header = Header::read(&mut BinDecoder::new(bytes)).ok()?;
        if header.message_type == MessageType::Response {
            return None;
        }
        let query = Query { head: header.metadata, question: None, edns: None };
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
        let query = Query { question: Some(question.clone()), edns, ..query };
        Some(match settled {
            Some(code) => Self::Settled(query, Reply::of(code)),
            None => Self::Open(query, question),
        })
    }
}

/// Reads the one question of a query. The counts are checked first, since a decoder makes room for as many records as a
/// header claims to come; a query has one question and no answers, and nothing follows its end.
fn read_question(header: &Header, bytes: &[u8]) -> Option<(Question, Option<Edns>)> {
    let counts = header.counts;
    if header.truncation
        || (counts.queries, counts.answers, counts.authorities) != (1, 0, 0)
        || counts.additionals > MAX_ADDITIONALS
    {
        return None;
    }
    let mut decoder = BinDecoder::new(bytes);
    let mut message = Message::read(&mut decoder).ok().filter(|_| decoder.is_empty())?;
    Some((message.queries.pop()?, message.edns))
}

impl Query {
    /// Encodes the answer. One of more than `most` bytes is truncated, so that it is asked for again over TCP, where `most`
    /// is [`MOST_IN_STREAM`]. Below that a datagram is meant, which may have to be shorter yet.
    pub(super) fn answer(self, reply: Reply, role: Role, most: usize) -> Option<Vec<u8>> {
        let takes = match &self.edns {
            _ if most >= MOST_IN_STREAM => MOST_IN_STREAM,
            Some(edns) => most.min(SMALL_DATAGRAM.max(edns.max_payload().into())),
            None => most.min(SMALL_DATAGRAM),
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
            edns.set_max_payload(u16::try_from(MOST_IN_DATAGRAM).unwrap_or(u16::MAX));
            edns
        });
        let bytes = message.to_vec().ok()?;
        if bytes.len() <= takes { Some(bytes) } else { message.truncate().to_vec().ok() }
    }
}

/// The record that answers a question with an address.
pub(super) fn address_record(question: &Question, address: IpAddr, ttl: u32) -> Record {
    Record::from_rdata(question.name().clone(), ttl, RData::from(address))
}
