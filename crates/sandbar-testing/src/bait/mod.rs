//! The escape suite from the outside: what there is to reach, and the program that tries.
//!
//! [`Bait`] is laid on the host; a box that keeps its promise reaches none of it. [`Intruder`] is
//! the program `sandbar-intruder`, which runs inside and gets the locations of the bait.
//! [`HostState`] is the state that must be the same afterwards.

mod calls;
mod host_state;
mod intruder;
mod laid;
mod listener;

pub use host_state::HostState;
pub use intruder::Intruder;
pub use laid::Bait;
