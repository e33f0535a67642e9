//! Names: what they lead to, and what a session is told about them.
//!
//! The gateway looks names up by itself, for its own connections and for sessions that ask. A message of a session never goes
//! out: it is read, judged, and what it asks is asked anew; the answer is made here too. Apart from that, a [`NameServer`]
//! tells this machine where the names of its own sandboxes lead.

mod answer;
mod cache;
mod changing_file;
mod exchange;
pub(crate) mod fuzzing;
mod hosts_file;
mod known_names;
mod message;
mod name;
mod name_server;
mod record;
mod resolver;
mod servers;
mod stream;
mod upstream;
mod zone;

#[cfg(test)]
mod test_server;

pub(crate) use answer::answer;
pub(crate) use exchange::{MOST_IN_DATAGRAM, MOST_IN_STREAM};
pub(crate) use known_names::KnownNames;
pub use name_server::NameServer;
pub(crate) use resolver::{LookupError, Resolver};
pub(crate) use stream::answer_stream;
pub use zone::Zone;
