//! Names: what they lead to, and what a session is told about them.
//!
//! The gateway looks names up by itself, for its own connections and for sessions that ask. A message of a session never goes
//! out: it is read, judged, and what it asks is asked anew; the answer is made here too.

mod answer;
mod cache;
mod changing_file;
pub(crate) mod fuzzing;
mod hosts_file;
mod known_names;
mod message;
mod name;
mod record;
mod resolver;
mod servers;
mod upstream;

#[cfg(test)]
mod test_server;

pub(crate) use answer::answer;
pub(crate) use known_names::KnownNames;
pub(crate) use resolver::{LookupError, Resolver};
