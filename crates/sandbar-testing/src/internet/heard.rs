//! Records of what servers received.

use std::{net::SocketAddr, sync::Mutex};

use sandbar_core::MutexExt as _;

/// An event on a server: a connection, a ClientHello, a DNS query or a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Address of the server.
    pub at: SocketAddr,
    /// The host that was meant, where the words tell.
    pub host: Option<String>,
    pub words: String,
}

impl Heard {
    /// The value of a header, when this is a request that has it.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.words.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Whether this is an HTTP request.
    pub fn is_request(&self) -> bool {
        self.words
            .lines()
            .next()
            .is_some_and(|line| line.contains(" HTTP/"))
    }
}

#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Vec<Heard>>);

impl Log {
    pub(super) fn write(&self, at: SocketAddr, host: Option<&str>, words: impl Into<String>) {
        let heard = Heard {
            at,
            host: host.map(str::to_ascii_lowercase),
            words: words.into(),
        };
        self.0.lock_unpoisoned().push(heard);
    }

    pub(super) fn all(&self) -> Vec<Heard> {
        self.0.lock_unpoisoned().clone()
    }
}
