//! `sandbar top`: resource usage of sessions, refreshed periodically.
//!
//! `sample.rs` queries the host, `entry.rs` computes figures from two samples, `list.rs` sorts and
//! filters them, `view.rs` handles keys, `draw.rs` and `details.rs` render rows,
//! `live.rs` runs the screen and `print.rs` prints one table.

mod details;
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
