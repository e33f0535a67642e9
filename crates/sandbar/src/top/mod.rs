//! `sandbar top`: sessions and what they use, again and again.
//!
//! `sample.rs` asks the host, `entry.rs` makes figures of two answers, `list.rs` sorts and filters them, `view.rs` knows
//! what keys mean, `draw.rs` makes rows of it all, and `live.rs` keeps them on the screen.

mod draw;
mod entry;
mod list;
mod live;
mod print;
mod sample;
mod view;

pub(crate) use entry::Column;
pub(crate) use live::watch;
pub(crate) use print::{print_json, print_table};
pub(crate) use sample::Observed;
