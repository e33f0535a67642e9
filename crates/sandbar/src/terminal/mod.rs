//! The terminal and the standard streams: raw mode, stdin, signals, output, progress bars and the
//! full-screen mode.

mod device;
mod input;
mod interrupt;
pub(crate) mod output;
mod progress;
pub(crate) mod screen;
mod secret_input;

pub(crate) use device::{ChangedMode, DEFAULT_SIZE, Sizes, Terminal};
pub(crate) use input::Input;
pub(crate) use interrupt::{Interrupts, until_second};
pub(crate) use progress::Progress;
pub(crate) use secret_input::read_secret;
