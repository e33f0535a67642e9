//! Names that sessions ask about.
//!
//! A message of a session is never passed on: it is read, judged, and its question is asked anew by the gateway's
//! [`Resolver`](sandbar_resolver::Resolver); the answer is made here too. Apart from that, a [`NameServer`] tells this machine
//! where the names of its own sandboxes lead.

mod answer;
mod exchange;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod known_names;
mod name_server;
mod stream;
mod zone;

pub(crate) use answer::answer;
pub(crate) use exchange::{MOST_IN_DATAGRAM, MOST_IN_STREAM};
pub(crate) use known_names::KnownNames;
pub use name_server::NameServer;
pub(crate) use stream::answer_stream;
pub use zone::Zone;
