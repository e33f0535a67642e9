//! Protocol between host, spawner and init: frames over a unix stream socket, with descriptors as
//! ancillary data.
//!
//! All back ends share it. A command's streams are passed as descriptors where that is possible
//! (native, none). Otherwise (gVisor) they are named pipes that init opens.

mod connection;
mod init_messages;
mod spawner_messages;
mod wire;

pub(crate) use connection::{Connection, Incoming, MAX_DESCRIPTORS, send_frame, send_frame_within};
pub(crate) use init_messages::{
    CommandCgroup, Ended, Event, ExecAnswer, ExecOrder, Order, PrepareOrder, Request, Stage,
    Streams, UserOrder,
};
pub(crate) use spawner_messages::{
    BoxOrder, BoxRoot, BoxUsers, InitMode, ListenersOrder, ListenersParts, SpawnerAnswer,
    SpawnerRequest, StartOrder, TrustOrder,
};
pub(crate) use wire::{Reader, Writer};
