//! OpenAPI 3.1 document of the API in its Connect JSON form, generated from the compiled `.proto`
//! files and their comments.
//!
//! Invariant: everything that the descriptors contain is generated, so that a change of a call,
//! field or comment in the `.proto` changes the document.

mod call;
mod catalog;
mod comments;
mod document;
mod error_answer;
mod field;
mod schema;
mod well_known;

pub use document::openapi_json;

#[cfg(test)]
mod tests;
