//! The HTTP engine: every request is judged by the host it names, and only then goes anywhere.
//!
//! One engine serves what the explicit proxy gets, plain HTTP that was meant for somebody else, and HTTPS that was opened
//! here. Bodies stream; nothing of them is kept.

mod content;
mod engine;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod headers;
mod inject;
mod ledger;
mod links;
mod origin;
mod outside;
mod patience;
mod reply;
mod requested;
mod tasks;
mod upgrade;

pub(crate) use engine::{serve_http, serve_http2};
pub(crate) use origin::Origin;
pub(crate) use outside::{Outside, Refusal};

#[cfg(test)]
mod tests;
