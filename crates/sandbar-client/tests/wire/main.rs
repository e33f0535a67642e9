//! The client against a server of a few lines, over a real socket and in every wire form.

mod double;
mod errors;
mod retries;
mod uploads;
