//! The surface over the wire, as the SDKs speak it, on a real host: btrfs and native boxes.

mod client;
mod sandboxes;
mod templates;
mod world;
