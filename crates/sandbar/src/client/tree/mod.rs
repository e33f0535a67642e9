//! Copies of directory trees between this machine and a sandbox, as tar streams.
//!
//! Invariant: unpacking never writes outside of the given directory, whatever the stream contains:
//! data from a sandbox is not trusted.

mod transfer;
mod unpack;

pub(crate) use transfer::{TopLevel, receive, send};
