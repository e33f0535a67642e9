//! Runs a small piece of concurrent code under every schedule that matters.
//!
//! The code under test is the real one. It uses [`sync`], [`thread`] and [`time`] of this crate in place of those of the
//! standard library. Its threads are real threads, but only one of them goes on at a time, and before every step others
//! could notice (a lock, a wait, a notification, an atomic operation, [`thread::step`]) an explorer decides who that is.
//! [`Exhaustive`] goes through all decisions there are, depth first; [`Random`] draws them. A failure comes with the
//! schedule that led to it, and [`replay`] goes there again.
//!
//! A run fails when a thread panics, when nobody can go on, when it does not end, or when it is not the same each time.
//!
//! What it assumes: memory is sequentially consistent; condition variables do not wake up by themselves, so that a lost
//! notification shows; time passes only where somebody waits with a limit, and there at any moment. What threads do
//! without the types of this crate is not seen, and must not block.
//!
//! Outside of a run the types behave like those of the standard library, so that ordinary tests can use the same code.

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
