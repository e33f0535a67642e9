//! Authentication: API keys, access tokens of sandboxes, and signed URLs.
//!
//! - An *API key* is a token of the host in E2B's format, sent as `X-API-KEY`. It grants the scopes
//!   of that token ([`keys`]).
//! - The *access token* of a sandbox is derived from its traffic token and grants that one sandbox
//!   ([`token`]).
//! - A *signed URL* proves knowledge of the access token for one file and one operation
//!   ([`signed_url`]).
//!
//! [`Auth::admit`] combines them for requests to a sandbox ([`session_caller`]).

mod call_slot;
mod files_query;
mod keys;
mod session_caller;
mod signed_url;
mod state;
mod token;
mod token_lookup;

pub use call_slot::{CallOwner, CallSlot};
pub(crate) use files_query::FilesQuery;
pub use keys::{ApiCaller, Keyring, api_key};
pub use session_caller::NamedBy;
pub(crate) use session_caller::{Credential, SessionCaller};
#[cfg(fuzzing)]
pub(crate) use signed_url::check;
pub(crate) use state::Auth;
pub(crate) use token::{access_token, is_equal};
