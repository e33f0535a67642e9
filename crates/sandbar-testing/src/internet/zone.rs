//! DNS zone of the test internet.

use std::{collections::BTreeMap, net::IpAddr, sync::Mutex};

use super::services::{
    API, ATTACKER, ECHO, HOST, INTRANET, METADATA, PUBLIC_RESOLVER, SSH, WEB, WEB_V6, address,
};
use sandbar_core::MutexExt as _;

/// DNS answer for a name. Its TTL is zero.
#[derive(Clone, Debug)]
pub enum Answer {
    Addresses(Vec<IpAddr>),
    /// One address after the other, per query for its family; the last one is repeated.
    Turns(Vec<IpAddr>),
    Alias(String),
}

/// Resolved answer: the CNAME chain, and the addresses of the requested family.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) aliases: Vec<String>,
    pub(super) addresses: Vec<IpAddr>,
}

/// Every name there is.
#[derive(Debug, Default)]
pub struct Zone(Mutex<BTreeMap<String, Answer>>);

impl Zone {
    /// The names every test may use.
    pub(super) fn usual() -> Self {
        let zone = Self::default();
        for (names, addresses) in [
            (
                &[
                    "allowed.example",
                    "www.allowed.example",
                    "other.example",
                    "git.example",
                    "pypi.example",
                ][..],
                &[WEB][..],
            ),
            (
                &[
                    "attacker.example",
                    "data.attacker.example",
                    "redirect.example",
                ],
                &[WEB],
            ),
            (&["api.example"], &[API]),
            (&["echo.example"], &[ECHO]),
            (&["ssh.example"], &[SSH]),
            (&["doh.example", "dot.example"], &[PUBLIC_RESOLVER]),
            (&["evil.example"], &[ATTACKER]),
            (&["six.example"], &[WEB_V6]),
            (&["both.example"], &[WEB, WEB_V6]),
            (&["intern.example"], &[INTRANET]),
            (&["metadata.example"], &[METADATA]),
            (&["loopback.example"], &["127.0.0.1", "::1"]),
            (&["host.example"], &[HOST]),
        ] {
            for name in names {
                zone.set(
                    name,
                    Answer::Addresses(addresses.iter().map(|text| address(text)).collect()),
                );
            }
        }
        zone
    }

    pub fn set(&self, name: &str, answer: Answer) {
        self.0.lock_unpoisoned().insert(name.to_owned(), answer);
    }

    /// `None` when there is no such name.
    pub(super) fn find(&self, name: &str, six: bool) -> Option<Found> {
        let mut zone = self.0.lock_unpoisoned();
        let mut found = Found::default();
        let mut name = name.to_ascii_lowercase();
        loop {
            match zone.get_mut(&name)? {
                Answer::Alias(other) => {
                    name = other.clone();
                    found.aliases.push(name.clone());
                    // A CNAME loop is answered as configured.
                    if found.aliases.len() > 8 {
                        return Some(found);
                    }
                }
                Answer::Addresses(addresses) => {
                    found.addresses = addresses
                        .iter()
                        .copied()
                        .filter(|address| address.is_ipv6() == six)
                        .collect();
                    return Some(found);
                }
                Answer::Turns(turns) => {
                    if turns
                        .first()
                        .is_some_and(|address| address.is_ipv6() == six)
                    {
                        found.addresses = vec![turns[0]];
                        if turns.len() > 1 {
                            turns.remove(0);
                        }
                    }
                    return Some(found);
                }
            }
        }
    }
}
