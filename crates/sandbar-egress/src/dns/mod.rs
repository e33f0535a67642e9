//! DNS for sessions.
//!
//! A message of a session is never forwarded. It is parsed and judged, its question is asked anew
//! by the gateway's [`Resolver`](sandbar_resolver::Resolver), and the answer is encoded here. This
//! leaves no room for data hidden in other parts of a message.
//!
//! Apart from that, a [`NameServer`] resolves the names of this machine's own sandboxes.

#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod known_names;
mod name_server;
mod query;
mod session_answer;
mod stream;
mod zone;

pub(crate) use known_names::KnownNames;
pub use name_server::NameServer;
pub(crate) use query::{MAX_DATAGRAM_BYTES, MAX_STREAM_BYTES};
pub(crate) use session_answer::answer;
pub(crate) use stream::answer_stream;
pub use zone::Zone;
