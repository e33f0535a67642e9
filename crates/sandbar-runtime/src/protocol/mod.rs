//! What host, spawner and init say to each other: frames over a unix stream socket, descriptors beside them.
//!
//! One protocol serves every runtime. Where descriptors can be passed (native, none) a command's streams are passed; where
//! they cannot (gVisor) they are named and init opens them.

mod connection;
mod init_messages;
mod spawner_messages;
mod wire;

pub(crate) use connection::{Connection, Incoming, MOST_DESCRIPTORS, send_frame};
pub(crate) use init_messages::{
    Ended, Event, ExecAnswer, ExecOrder, GroupPlace, Order, PrepareOrder, Request, Stage, Streams, UserOrder,
};
pub(crate) use spawner_messages::{
    BoxOrder, GateOrder, GateParts, InitMode, RootPlace, SpawnerAnswer, SpawnerRequest, StartOrder, TrustOrder,
    UserPlace,
};
pub(crate) use wire::{Reader, Writer};
