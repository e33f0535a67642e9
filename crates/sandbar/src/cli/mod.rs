//! The command line: its definition, arguments that several verbs share, and parsers for values.

pub(crate) mod arguments;
mod definition;
pub(crate) mod parse;

pub(crate) use definition::{Cli, Verb};
