//! What host, spawner and init say to each other: frames over a unix stream socket, descriptors beside them.
//!
//! One protocol serves every runtime. Where descriptors can be passed (native, none) a command's streams are passed; where
//! they cannot (gVisor) they are named and init opens them.

mod connection;
mod message;
mod wire;

pub(crate) use connection::{Connection, Incoming, MOST_DESCRIPTORS, send_frame};
pub(crate) use message::{
    BoxOrder, Ended, Event, ExecAnswer, ExecOrder, GateOrder, GateParts, GroupPlace, InitMode, Order, PrepareOrder,
    Request, RootPlace, SpawnerAnswer, SpawnerRequest, Stage, StartOrder, Streams, TrustOrder, UserPlace,
};
pub(crate) use wire::{Reader, Writer};
