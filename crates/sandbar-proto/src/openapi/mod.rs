//! The API as OpenAPI 3.1: its Connect form in JSON, made from the compiled `.proto` files and their comments.
//!
//! Invariant: nothing is described by hand that the descriptors know. A call, a field or a comment that changes in the
//! `.proto` changes here.

mod call;
mod catalog;
mod comments;
mod document;
mod error_answer;
mod field;
mod schema;
mod well_known;

use std::sync::LazyLock;

use buffa::Message as _;
use buffa_descriptor::generated::descriptor::FileDescriptorSet;
use sandbar_core::{Error, Result};

use crate::FILE_DESCRIPTOR_SET;

/// The description as JSON text. It is made once, when it is first asked for.
pub fn openapi_json() -> Result<&'static [u8]> {
    static MADE: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| {
        let files = FileDescriptorSet::decode_from_slice(FILE_DESCRIPTOR_SET).ok()?;
        serde_json::to_vec_pretty(&document::document(&files)).ok()
    });
    MADE.as_deref().ok_or_else(|| Error::internal("the compiled API description is broken"))
}

#[cfg(test)]
mod tests;
