//! Who may call, and what.
//!
//! A request passes two gates. [`guard`] stands before everything: it finds out whose token it carries, and gives it one
//! of the places of that token. [`Guarded`] stands before the calls of the API: it looks up what a call takes
//! ([`rules`]), reads from the request which session it is about, and compares that with what the token allows.
//!
//! Invariant: no handler checks anything by itself, and none can forget to: [`Guarded`] is what the server dispatches to,
//! and a call without a rule is refused to everybody.

mod bearer;
mod caller;
mod gatekeeper;
mod guard;
mod guarded;
mod patience;
mod places;
mod rules;
mod version;

#[cfg(fuzzing)]
pub(crate) use bearer::token as bearer_token;
pub(crate) use caller::{Caller, Peer};
pub(crate) use gatekeeper::Gatekeeper;
pub(crate) use guard::guard;
pub(crate) use guarded::Guarded;
pub(crate) use patience::{Patience, be_patient};
pub(crate) use places::Places;
#[cfg(fuzzing)]
pub(crate) use version::check as check_version;
pub(crate) use version::tell_version;
