//! Fuzz entry points for DNS.

use std::{cell::RefCell, path::Path};

use hickory_proto::op::Message;
use sandbar_resolver::Resolver;

use super::{KnownNames, answer};
use crate::rules::Rules;

/// Decodes a message of a name server. A message that decodes must encode, and decode again.
pub fn dns_message(bytes: &[u8]) {
    if let Ok(written) = Message::from_vec(bytes).map(|message| message.to_vec())
        && let Ok(written) = written
    {
        assert!(Message::from_vec(&written).is_ok(), "{written:?}");
    }
}

/// Answers a query under a closed policy. Every answer must decode.
pub fn dns_answer(bytes: &[u8]) {
    thread_local! {
        static STATE: RefCell<(Rules, Resolver, KnownNames)> = RefCell::new((
            Rules::new(sandbar_core::NetworkPolicy::default()),
            Resolver::with_servers_and_hosts(Vec::new(), Path::new("/nonexistent/hosts")),
            KnownNames::default(),
        ));
    }
    STATE.with_borrow(|(rules, resolver, names)| {
        for max_bytes in [512, usize::from(u16::MAX)] {
            if let Some(answered) =
                futures::executor::block_on(answer(bytes, rules, resolver, names, &[], max_bytes))
            {
                assert!(
                    answered.message.len() <= max_bytes,
                    "{} bytes, limit {max_bytes}",
                    answered.message.len()
                );
                assert!(
                    Message::from_vec(&answered.message).is_ok(),
                    "{:?}",
                    answered.message
                );
            }
        }
    });
}
