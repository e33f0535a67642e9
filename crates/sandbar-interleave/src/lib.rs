//! Runs a small piece of concurrent code under every schedule that matters.
//!
//! The code under test is the real one. It uses [`sync`], [`thread`] and [`time`] of this crate in
//! place of those of the standard library. Its threads are real threads, but only one of them runs
//! at a time. Before every step that other threads can see (a lock, a wait, a notification, an
//! atomic operation, [`thread::step`]) an explorer decides which thread runs next. [`Exhaustive`]
//! tries all decisions, depth first; [`Random`] draws them from a seed. A failure reports the
//! schedule that led to it, and [`replay`] runs that schedule again.
//!
//! A run fails when a thread panics, when all threads are blocked (a deadlock), when it exceeds the
//! step limit, or when the code is not deterministic under a given schedule.
//!
//! Assumptions: memory is sequentially consistent; condition variables have no spurious wakeups, so
//! that a lost notification shows as a deadlock; time passes only when a wait times out, which may
//! happen at any moment. Operations without the types of this crate are not seen by the explorer,
//! and must not block.
//!
//! Outside of a run the types behave like those of the standard library, so that ordinary tests can
//! use the same code.

mod checker;
mod crew;
mod current;
mod exhaustive;
mod explorer;
mod failure;
mod pending;
mod random;
mod run;
mod schedule;
pub mod sync;
pub mod thread;
pub mod time;

pub use checker::{Exhaustive, Random, replay};
pub use failure::Failure;
