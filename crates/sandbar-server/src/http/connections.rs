//! Bounds on open connections.
//!
//! Every connection takes a file descriptor, of which a process has few. The table counts
//! connections by peer until they have shown a valid token, and by token afterwards. Neither a peer
//! nor a token can hold more than its share, except tokens with scope `admin`. At a limit the
//! connection that has rested longest is closed in favour of the new one; a connection with a
//! request in progress is never closed.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use sandbar_core::{Error, ErrorCode, MutexExt as _, Result};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::ConnectionTimeouts;

/// Share of one peer or one token: a quarter.
const SHARES: usize = 4;

/// Evidence that a connection has shown about its peer, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// No token and no public port.
    Unknown,
    /// Requests to public ports, which need no token.
    Visitor,
    /// A valid token.
    Token,
    /// A token with scope `admin`, which no share applies to.
    Admin,
}

/// Table of open connections.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Arc<Table>);

#[derive(Debug)]
struct Table {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: BTreeMap<u64, Entry>,
    /// Number of open connections by the party they are counted for.
    counts: HashMap<Party, usize>,
}

/// Party that a connection is counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Party {
    Peer(IpAddr),
    Owner(Arc<str>),
}

#[derive(Debug)]
struct Entry {
    party: Party,
    standing: Standing,
    /// Requests in progress, and tunnels.
    requests: usize,
    /// Whether a request has arrived.
    is_used: bool,
    rests_since: Instant,
    changed: Arc<Notify>,
    close: CancellationToken,
}

impl Connections {
    /// Returns a table for at most `max` connections.
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Table {
            max: max.max(1),
            state: Mutex::default(),
        }))
    }

    /// Adds a connection. `None` when the limit is reached and no connection can be closed for it.
    pub(crate) fn admit(&self, peer: IpAddr) -> Option<Admitted> {
        let party = Party::Peer(network_of(peer));
        let mut state = self.0.state.lock_unpoisoned();
        if state.count(&party) >= self.share() {
            state.close_resting(|entry| entry.party == party)?;
        }
        if state.open.len() >= self.0.max {
            state.close_any()?;
        }
        let id = state.next;
        state.next += 1;
        let entry = Entry {
            party,
            standing: Standing::Unknown,
            requests: 0,
            is_used: false,
            rests_since: Instant::now(),
            changed: Arc::default(),
            close: CancellationToken::new(),
        };
        let (changed, close) = (Arc::clone(&entry.changed), entry.close.clone());
        state.insert(id, entry);
        drop(state);
        Some(Admitted {
            registration: Arc::new(Registration {
                table: self.clone(),
                id,
            }),
            changed,
            close,
        })
    }

    fn share(&self) -> usize {
        (self.0.max / SHARES).max(1)
    }
}

impl State {
    fn count(&self, party: &Party) -> usize {
        self.counts.get(party).copied().unwrap_or_default()
    }

    fn insert(&mut self, id: u64, entry: Entry) {
        *self.counts.entry(entry.party.clone()).or_default() += 1;
        self.open.insert(id, entry);
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.open.remove(&id)?;
        if let Some(count) = self.counts.get_mut(&entry.party) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&entry.party);
            }
        }
        Some(entry)
    }

    /// Closes the connection that has rested longest of those that `applies` to.
    fn close_resting(&mut self, applies: impl Fn(&Entry) -> bool) -> Option<()> {
        let (&id, _) = self
            .open
            .iter()
            .filter(|(_, entry)| entry.requests == 0 && applies(entry))
            .min_by_key(|(_, entry)| entry.rests_since)?;
        self.remove(id)?.close.cancel();
        Some(())
    }

    /// Closes a resting connection: one of the weakest standing, of the party with the most.
    fn close_any(&mut self) -> Option<()> {
        let resting = self.open.values().filter(|entry| entry.requests == 0);
        let party = resting
            .min_by_key(|entry| {
                (
                    entry.standing,
                    std::cmp::Reverse(self.count(&entry.party)),
                    entry.rests_since,
                )
            })?
            .party
            .clone();
        self.close_resting(|entry| entry.party == party)
    }
}

/// Returns the peer, or for IPv6 the network that usually belongs to one machine.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// A connection in the table.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) registration: Arc<Registration>,
    changed: Arc<Notify>,
    close: CancellationToken,
}

impl Admitted {
    /// Returns when the connection has to be closed: in favour of another one, or because it has
    /// shown no token and rests.
    pub(crate) async fn closed(&self, timeouts: ConnectionTimeouts) {
        tokio::select! {
            () = self.close.cancelled() => {}
            () = self.rested(timeouts) => {}
        }
    }

    async fn rested(&self, timeouts: ConnectionTimeouts) {
        loop {
            match self.registration.time_left(timeouts) {
                Some(left) if left.is_zero() => return,
                Some(left) => tokio::time::sleep(left).await,
                None => self.changed.notified().await,
            }
        }
    }
}

/// Entry of a connection, removed when it is dropped. The socket owns one, so that a tunnel counts
/// as long as it is open.
#[derive(Debug)]
pub(crate) struct Registration {
    table: Connections,
    id: u64,
}

impl Registration {
    /// Returns how long the connection may still rest; `None` if it may for as long as it likes.
    fn time_left(&self, timeouts: ConnectionTimeouts) -> Option<Duration> {
        let state = self.table.0.state.lock_unpoisoned();
        let entry = state.open.get(&self.id)?;
        if entry.requests > 0 || entry.standing > Standing::Visitor {
            return None;
        }
        let limit = if entry.is_used {
            timeouts.idle_without_token
        } else {
            timeouts.idle_without_token.max(timeouts.head)
        };
        Some(limit.saturating_sub(entry.rests_since.elapsed()))
    }

    /// Counts a request until the result is dropped.
    pub(crate) fn request(self: &Arc<Self>) -> RequestInProgress {
        let mut state = self.table.0.state.lock_unpoisoned();
        if let Some(entry) = state.open.get_mut(&self.id) {
            entry.requests += 1;
            entry.is_used = true;
        }
        RequestInProgress(Arc::clone(self))
    }

    /// Counts the connection for an owner from now on; `TooManyCalls` when the owner's share is
    /// taken by connections with requests in progress. A connection never loses standing.
    pub(crate) fn assign(&self, owner: &Arc<str>, standing: Standing) -> Result<()> {
        let mut state = self.table.0.state.lock_unpoisoned();
        let Some(entry) = state.open.get(&self.id) else {
            return Ok(());
        };
        if entry.standing >= standing {
            return Ok(());
        }
        let party = Party::Owner(Arc::clone(owner));
        let share = self.table.share();
        if standing < Standing::Admin
            && state.count(&party) >= share
            && state.close_resting(|entry| entry.party == party).is_none()
        {
            return Err(Error::new(
                ErrorCode::TooManyCalls,
                format!("{owner} is at its limit of {share} connections"),
            )
            .with_hint("close connections, or raise `max_connections`"));
        }
        if let Some(entry) = state.remove(self.id) {
            state.insert(
                self.id,
                Entry {
                    party,
                    standing,
                    ..entry
                },
            );
        }
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.table.0.state.lock_unpoisoned().remove(self.id);
    }
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct RequestInProgress(Arc<Registration>);

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let mut state = self.0.table.0.state.lock_unpoisoned();
        if let Some(entry) = state.open.get_mut(&self.0.id) {
            entry.requests -= 1;
            entry.rests_since = Instant::now();
            entry.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn token(connection: &Admitted, name: &str) -> Result<()> {
        connection
            .registration
            .assign(&name.into(), Standing::Token)
    }

    fn is_closed(connection: &Admitted) -> bool {
        connection.close.is_cancelled()
    }

    #[test]
    fn peer_at_its_share_loses_its_longest_rest() {
        let table = Connections::new(8);
        let first = table.admit(PEER).unwrap();
        let second = table.admit(PEER).unwrap();
        let other = table.admit(OTHER).unwrap();
        let third = table.admit(PEER).unwrap();
        assert!(is_closed(&first) && !is_closed(&second) && !is_closed(&other));
        let _requests = (second.registration.request(), third.registration.request());
        assert!(table.admit(PEER).is_none());
        drop(second);
        assert!(table.admit(OTHER).is_some());
    }

    #[test]
    fn connection_with_a_token_counts_for_the_token() {
        let table = Connections::new(16);
        let mut held = Vec::new();
        for number in 0..8 {
            let connection = table.admit(PEER).unwrap();
            token(&connection, ["a", "b"][number % 2]).unwrap();
            held.push(connection);
        }
        assert!(!held.iter().any(is_closed));
        let requests: Vec<_> = held[2..]
            .iter()
            .map(|connection| connection.registration.request())
            .collect();
        let connection = table.admit(PEER).unwrap();
        token(&connection, "a").unwrap();
        assert!(is_closed(&held[0]) && !is_closed(&held[1]));
        let _request = connection.registration.request();
        let refused = table.admit(PEER).unwrap();
        let error = token(&refused, "a").unwrap_err();
        assert_eq!(error.code(), ErrorCode::TooManyCalls);
        assert!(error.hint().unwrap().contains("max_connections"));
        let admin = refused.registration.assign(&"a".into(), Standing::Admin);
        assert!(admin.is_ok());
        drop((requests, held));
    }

    #[test]
    fn full_table_closes_the_weakest_resting_connection() {
        let table = Connections::new(4);
        let admin = table.admit(PEER).unwrap();
        admin
            .registration
            .assign(&"admin".into(), Standing::Admin)
            .unwrap();
        let tenant = table.admit(PEER).unwrap();
        token(&tenant, "a").unwrap();
        let unknown = table.admit(PEER).unwrap();
        let busy = table.admit(OTHER).unwrap();
        let request = busy.registration.request();
        let next = table.admit("2001:db8::1".parse().unwrap()).unwrap();
        assert!(is_closed(&unknown) && !is_closed(&tenant) && !is_closed(&admin));
        let _request = next.registration.request();
        let last = table.admit("192.0.2.3".parse().unwrap()).unwrap();
        assert!(is_closed(&tenant) && !is_closed(&admin) && !is_closed(&busy));
        drop((last, request));
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_peer() {
        let table = Connections::new(4);
        let first = table.admit("2001:db8::1".parse().unwrap()).unwrap();
        let _second = table.admit("2001:db8::2".parse().unwrap()).unwrap();
        assert!(is_closed(&first));
        let mapped = table.admit("::ffff:192.0.2.1".parse().unwrap()).unwrap();
        let _again = table.admit(PEER).unwrap();
        assert!(is_closed(&mapped));
    }

    #[test]
    fn dropped_connections_leave_no_trace() {
        let table = Connections::new(4);
        let connection = table.admit(PEER).unwrap();
        let request = connection.registration.request();
        token(&connection, "a").unwrap();
        drop(connection);
        assert_eq!(table.0.state.lock_unpoisoned().open.len(), 1);
        drop(request);
        let state = table.0.state.lock_unpoisoned();
        assert!(state.open.is_empty() && state.counts.is_empty());
    }
}
