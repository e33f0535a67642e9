//! Names: what they lead to, and what a session is told about them.

mod answer;
mod known_names;
mod resolver;

pub(crate) use answer::{Answer, answer};
pub(crate) use known_names::KnownNames;
pub(crate) use resolver::{LookupError, Resolver};
