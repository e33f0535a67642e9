//! Ways into the readers of DNS for the fuzzer.

use std::{cell::RefCell, path::PathBuf, sync::Arc};

use super::{KnownNames, Resolver, answer, hosts_file, message::Message, servers};
use crate::rules::Rules;

/// A message that is read is the same when it was written and read again.
pub fn dns_message(bytes: &[u8]) {
    if let Some(message) = Message::read(bytes) {
        let again = Message::read(&message.write());
        assert!(again.as_ref() == Some(&message), "{message:?} became {again:?}");
    }
}

/// A query of a session that may ask for nothing: whatever it is told can be read.
pub fn dns_answer(bytes: &[u8]) {
    thread_local! {
        static WORLD: RefCell<(Rules, Resolver, KnownNames)> = RefCell::new((
            Rules::new(sandbar_core::NetworkPolicy::default()),
            Resolver::with(servers::Servers::Fixed(Arc::default()), PathBuf::from("/nonexistent/hosts")),
            KnownNames::default(),
        ));
    }
    WORLD.with_borrow(|(rules, resolver, names)| {
        for most in [512, usize::from(u16::MAX)] {
            if let Some(told) = futures::executor::block_on(answer(bytes, rules, resolver, names, &[], most)) {
                assert!(told.message.len() <= most, "{} bytes, {most} at most", told.message.len());
                assert!(Message::read(&told.message).is_some(), "{:?}", told.message);
            }
        }
    });
}

/// A file like `/etc/hosts`.
pub fn hosts_file(bytes: &[u8]) {
    hosts_file::parse(&String::from_utf8_lossy(bytes));
}

/// A file like `/etc/resolv.conf`.
pub fn resolver_file(bytes: &[u8]) {
    assert!(!servers::parse(&String::from_utf8_lossy(bytes)).is_empty(), "nobody to ask");
}
