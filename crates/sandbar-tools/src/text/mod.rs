//! Text on its way to the caller: whole characters, bounded, with lines people and models can point at.

mod lines;
mod transcript;
mod utf8;

pub(crate) use lines::{BoundedText, clip, numbered};
pub(crate) use transcript::Transcript;
pub(crate) use utf8::Utf8Stream;

/// Bytes of text an answer holds at most. Of longer output the beginning and the end are kept; all of it, up to the
/// output limit of the call, goes by as progress.
pub const CONTENT_LIMIT: usize = 1 << 20;
