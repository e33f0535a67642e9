//! Full-screen mode: rows that are redrawn only when they change, keys, and a terminal that is
//! always restored.

mod alternate;
mod keys;
mod panic_message;
mod row;

pub(crate) use alternate::Screen;
pub(crate) use keys::{Key, keys};
pub(crate) use panic_message::PanicMessage;
pub(crate) use row::{Look, Row};
