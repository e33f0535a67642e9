//! Entry points of the fuzzer to the parsers of this crate.

pub use crate::envd::files::fuzzing::{content_headers, content_range, file_address, upload_form};
