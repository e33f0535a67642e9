//! A full screen of our own: rows that are drawn only where they changed, keys, and a terminal that is always given back.

mod alternate;
mod keys;
mod panic_message;
mod row;

pub(crate) use alternate::Screen;
pub(crate) use keys::{Key, keys};
pub(crate) use panic_message::PanicMessage;
pub(crate) use row::{Look, Row};
