//! The surface over the wire, as the SDKs speak it, on a real host: btrfs and native boxes.

mod client;
mod command;
mod commands;
mod control;
mod domain;
mod interpreter;
mod interpreter_guest;
mod names;
mod ports;
mod sandboxes;
mod templates;
mod terminals;
mod world;
