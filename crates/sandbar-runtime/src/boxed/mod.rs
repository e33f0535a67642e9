//! What the host's side of every box has in common: the conversation with its init, and commands through it.

mod command_control;
mod dialing;
mod link;
mod network;
mod pipes;
mod sandbox;

pub(crate) use link::{InitLink, LinkSockets, wait_until_ready};
pub(crate) use network::BoxNetworkHandle;
pub(crate) use pipes::{CommandStreams, NamedPipes, PipeDirectory};
pub(crate) use sandbox::{BoxSandbox, RunningNumbers, Walls};
