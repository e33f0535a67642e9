//! Server configuration.

use std::{net::SocketAddr, time::Duration};

use rustix::process::{Resource, getrlimit};
use sandbar_core::AccessToken;
use sandbar_e2b::{E2b, SandboxCeilings};

use super::ConnectionTimeouts;
use crate::tls::TlsConfig;

/// Address, credentials and limits of a server.
#[derive(Debug)]
pub struct ServerConfig {
    /// Port 0 picks a free port.
    pub listen: SocketAddr,
    /// Token with scope `admin`, in addition to the tokens that the host issues. `None` switches
    /// authentication off, which is allowed on loopback addresses only.
    pub token: Option<AccessToken>,
    /// `None` serves plain HTTP.
    pub tls: Option<TlsConfig>,
    /// Concurrent calls of one token on all surfaces together; a stream counts until it ends, a
    /// WebSocket until it is closed. 0 means no limit.
    pub max_calls_per_token: usize,
    /// Open connections, of all peers together.
    pub max_connections: usize,
    /// Deadline of unary calls that set none themselves. Zero means no deadline.
    pub request_timeout: Duration,
    /// Time that running calls have to complete after shutdown began.
    pub drain_timeout: Duration,
    /// Time a client may leave a response stream unread before the stream is ended, with the
    /// command it belongs to.
    pub slow_reader_timeout: Duration,
    pub connection_timeouts: ConnectionTimeouts,
    /// Time that creation of an E2B sandbox waits for the start command of its template.
    pub ready_wait: Duration,
    /// Upper limits of the rights of E2B sandboxes.
    pub e2b_ceilings: SandboxCeilings,
}

impl ServerConfig {
    /// Default of `slow_reader_timeout`.
    pub const SLOW_READER_TIMEOUT: Duration = Duration::from_mins(5);
    /// Default of `max_calls_per_token`.
    pub const MAX_CALLS_PER_TOKEN: usize = 512;
    /// Default of `request_timeout`.
    pub const REQUEST_TIMEOUT: Duration = Duration::from_mins(10);

    pub fn new(listen: SocketAddr, token: Option<AccessToken>) -> Self {
        Self {
            listen,
            token,
            tls: None,
            max_calls_per_token: Self::MAX_CALLS_PER_TOKEN,
            max_connections: default_max_connections(),
            request_timeout: Self::REQUEST_TIMEOUT,
            drain_timeout: Duration::from_secs(10),
            slow_reader_timeout: Self::SLOW_READER_TIMEOUT,
            connection_timeouts: ConnectionTimeouts::default(),
            ready_wait: E2b::READY_TIMEOUT,
            e2b_ceilings: SandboxCeilings::default(),
        }
    }
}

/// Largest default of `max_connections`: buffers of connections take memory, too.
const MAX_DEFAULT_CONNECTIONS: u64 = 1 << 15;

/// Returns half of the file descriptors that this process may have. The other half is for boxes,
/// storage and connections into sandboxes.
fn default_max_connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let half = (descriptors / 2).min(MAX_DEFAULT_CONNECTIONS);
    usize::try_from(half).unwrap_or(usize::MAX)
}
