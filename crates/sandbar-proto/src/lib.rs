//! Wire API of Sandbar.
//!
//! [`v1`] is generated from `proto/sandbar/v1`, which is the source of truth; the conversions
//! between its messages and the vocabulary of `sandbar-core` are here once, for server and client
//! alike.
//!
//! Invariant: a received message becomes a core value only through a conversion that validates it,
//! and the error names the invalid field.

mod convert;
mod error;
mod generated;
mod openapi;
mod version;

pub use convert::{
    pack_path, unpack_attach_event, unpack_dir_news, unpack_event_news, unpack_path,
};
pub use error::{from_connect, to_connect};
pub use generated::{FILE_DESCRIPTOR_SET, v1};
pub use openapi::openapi_json;
pub use version::{
    API_VERSION, API_VERSION_HEADER, MAX_MESSAGE_BYTES, OLDEST_API_VERSION, parse_api_version,
};
