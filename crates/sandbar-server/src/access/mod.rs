//! Authentication and authorisation of API calls.
//!
//! [`authenticate()`] is middleware of the API: it maps the bearer token to a [`Caller`] and takes
//! the request's [`CallSlot`], as every other surface does (E2B, ingress, MCP), so that a token has
//! one limit for all of them. Only health and OpenAPI are served without it; MCP checks the token
//! and then calls the API with it.
//! [`Authorizer`] wraps the RPC dispatcher: it looks up the scope that a call needs ([`rules`]),
//! decodes the session id from the request, and compares it with the caller's scopes.
//!
//! Invariant: handlers do no access checks and cannot skip one. The server dispatches only through
//! [`Authorizer`], and a call without a rule is denied to every caller.

mod authenticate;
mod authorize;
mod bearer;
mod caller;
mod concurrency;
mod deadline;
mod rules;
mod tokens;
mod version;

pub(crate) use authenticate::authenticate;
pub(crate) use authorize::Authorizer;
#[cfg(fuzzing)]
pub(crate) use bearer::token as bearer_token;
pub(crate) use caller::{Caller, Peer};
pub(crate) use concurrency::{Call, CallSlot, ConcurrencyLimit};
pub(crate) use deadline::{DefaultDeadline, enforce_deadline};
pub(crate) use tokens::TokenVerifier;
pub(crate) use version::add_version_header;
#[cfg(fuzzing)]
pub(crate) use version::check as check_version;
