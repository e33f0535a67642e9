//! Trees of this machine as tar streams, in both directions.
//!
//! Invariant: unpacking never leaves the directory it was given, whatever the stream says: what comes out of a sandbox is
//! not trusted.

mod transfer;
mod unpack;

pub(crate) use transfer::{TopLevel, receive, send};
