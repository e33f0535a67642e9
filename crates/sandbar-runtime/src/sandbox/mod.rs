//! Host side of the init protocol, shared by all back ends: commands, pipes, connections and
//! supervision of one box.

mod box_network;
mod box_sandbox;
mod command_control;
mod command_supervisor;
mod dial;
mod dialed;
mod init_events;
mod init_link;
mod named_pipes;
mod pipes;
mod relocate;
mod start_command;
mod start_error;

pub(crate) use box_network::BoxNetworkHandle;
pub(crate) use box_sandbox::{Boundary, BoxParts, BoxSandbox, RunningNumbers};
pub use dialed::{Dialed, DialedStream};
pub(crate) use init_link::{InitLink, LinkSockets, wait_until_ready};
pub(crate) use named_pipes::PipeDirectory;
pub(crate) use pipes::CommandStreams;
