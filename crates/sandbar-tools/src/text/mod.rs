//! Text of answers: valid UTF-8, bounded, with line numbers.

mod lines;
mod transcript;
mod utf8;

pub(crate) use lines::{BoundedText, clip, numbered};
pub(crate) use transcript::Transcript;
pub(crate) use utf8::Utf8Stream;

/// Byte limit of the text of an answer. Of longer output the beginning and the end are kept; all of
/// it, up to the output limit of the call, is sent as progress.
pub const CONTENT_LIMIT: usize = 1 << 20;
