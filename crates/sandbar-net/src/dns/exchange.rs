//! One query and its answer: what every answer needs, whoever knows what is in it.

use super::{
    message::{Extension, Head, Message, Question, code, flag},
    record::{INTERNET, Record},
};

/// The longest datagram that is neither cut into packets nor lost.
pub(crate) const MOST_IN_DATAGRAM: usize = 1232;
/// The longest one for those who do not say what they take.
const SMALL_DATAGRAM: usize = 512;
/// The longest message over a connection.
pub(crate) const MOST_IN_STREAM: usize = u16::MAX as usize;

/// What the answer to a question will hold.
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) answers: Vec<Record>,
}

impl Reply {
    pub(super) const fn of(code: u16) -> Self {
        Self { code, answers: Vec::new() }
    }
}

/// A query, and what has become of it.
pub(super) enum Asked {
    /// Somebody has to know the answer.
    Open(Query, Question),
    /// What it must be told does not depend on what it asks.
    Settled(Query, Reply),
}

/// A query that gets an answer.
pub(super) struct Query {
    head: Head,
    question: Option<Question>,
    extension: Option<Extension>,
}

impl Asked {
    /// Reads a query; what is none gets no answer.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let head = Head::read(bytes).filter(|head| !head.has(flag::RESPONSE))?;
        let settled = |code| Some(Self::Settled(Query { head, question: None, extension: None }, Reply::of(code)));
        if head.has(flag::OPERATION) {
            return settled(code::NOT_IMPLEMENTED);
        }
        let Some(Message { question: Some(question), answers, extension, .. }) = Message::read(bytes) else {
            return settled(code::FORMAT_ERROR);
        };
        let query = Query { head, question: Some(question.clone()), extension };
        Some(if !answers.is_empty() || head.has(flag::TRUNCATED) {
            Self::Settled(query, Reply::of(code::FORMAT_ERROR))
        } else if extension.is_some_and(|extension| extension.version > 0) {
            Self::Settled(query, Reply::of(code::BAD_VERSION))
        } else if question.class != INTERNET {
            Self::Settled(query, Reply::of(code::REFUSED))
        } else {
            Self::Open(query, question)
        })
    }
}

impl Query {
    /// The answer. `standing` are the flags that say who answers. One of more than `most` bytes is cut, so that it is
    /// asked for again over TCP, where `most` is [`MOST_IN_STREAM`]. Below that a datagram is meant, which may have to be
    /// shorter yet.
    pub(super) fn answer(self, reply: Reply, standing: u16, most: usize) -> Vec<u8> {
        let kept = self.head.flags & (flag::OPERATION | flag::RECURSION_DESIRED);
        let flags = flag::RESPONSE | standing | kept | (reply.code & flag::CODE);
        let takes = match self.extension {
            _ if most >= MOST_IN_STREAM => MOST_IN_STREAM,
            Some(extension) => most.min(SMALL_DATAGRAM.max(extension.most.into())),
            None => most.min(SMALL_DATAGRAM),
        };
        let extension = self.extension.map(|_| Extension {
            most: u16::try_from(MOST_IN_DATAGRAM).unwrap_or(u16::MAX),
            version: 0,
            upper_code: u8::try_from(reply.code >> 4).unwrap_or_default(),
        });
        let head = Head { id: self.head.id, flags };
        let mut message = Message { head, question: self.question, answers: reply.answers, extension };
        let mut bytes = message.write();
        if bytes.len() > takes {
            message.answers.clear();
            message.head.flags |= flag::TRUNCATED;
            bytes = message.write();
        }
        bytes
    }
}
