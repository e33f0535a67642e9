//! Ways into the readers of this crate for the fuzzer.

pub use crate::envd::files::fuzzing::{content_headers, content_range, file_address, upload_form};
