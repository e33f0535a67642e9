//! Ways into the readers of DNS for the fuzzer.

use std::{cell::RefCell, path::Path};

use hickory_proto::op::Message;
use sandbar_resolver::Resolver;

use super::{KnownNames, answer};
use crate::rules::Rules;

/// A message of a name server: whatever can be read can be written, and what was written can be read.
pub fn dns_message(bytes: &[u8]) {
    if let Ok(written) = Message::from_vec(bytes).map(|message| message.to_vec())
        && let Ok(written) = written
    {
        assert!(Message::from_vec(&written).is_ok(), "{written:?}");
    }
}

/// A query of a session that may ask for nothing: every answer can be read.
pub fn dns_answer(bytes: &[u8]) {
    thread_local! {
        static WORLD: RefCell<(Rules, Resolver, KnownNames)> = RefCell::new((
            Rules::new(sandbar_core::NetworkPolicy::default()),
            Resolver::with_servers_and_hosts(Vec::new(), Path::new("/nonexistent/hosts")),
            KnownNames::default(),
        ));
    }
    WORLD.with_borrow(|(rules, resolver, names)| {
        for most in [512, usize::from(u16::MAX)] {
            if let Some(told) = futures::executor::block_on(answer(bytes, rules, resolver, names, &[], most)) {
                assert!(told.message.len() <= most, "{} bytes, {most} at most", told.message.len());
                assert!(Message::from_vec(&told.message).is_ok(), "{:?}", told.message);
            }
        }
    });
}
