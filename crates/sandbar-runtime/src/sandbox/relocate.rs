//! Replacing a running box: the link keeps its commands and continues with other sockets.

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::Arc,
};

use sandbar_core::{Error, MutexExt as _, Result};
use tokio::sync::oneshot;

use super::{
    init_events::lock,
    init_link::{InitLink, START_TIMEOUT},
};
use crate::protocol::Connection;

impl InitLink {
    /// Replaces the box. `transfer` ends the old one and returns the sockets of the new one, in
    /// which the same commands run. All requests sent before are done before the transfer; those
    /// sent during it are sent afterwards. Blocks.
    pub(crate) fn relocate(
        &self,
        transfer: impl FnOnce() -> Result<[UnixStream; 2]>,
    ) -> Result<()> {
        // No order is in progress while this lock is held.
        let mut orders = self.orders.lock_unpoisoned();
        self.hold_back()?;
        let outcome = self.sync().and_then(|()| self.switch_sockets(transfer));
        let outcome = outcome.and_then(|socket| {
            socket
                .set_read_timeout(Some(START_TIMEOUT))
                .map_err(|error| Error::io("connect to the sandbox", error))?;
            *orders = Connection::to_box(socket.into());
            self.sync()
        });
        // Their callers have already returned. If sending fails, the box and its commands are gone.
        self.release_requests();
        outcome
    }

    /// Hands the new event socket to the event reader and returns the new socket for orders.
    fn switch_sockets(
        &self,
        transfer: impl FnOnce() -> Result<[UnixStream; 2]>,
    ) -> Result<UnixStream> {
        let (sender, successor) = oneshot::channel();
        lock(&self.state).successor = Some(successor);
        let transferred = transfer().and_then(|[orders, events]| {
            let ours = events
                .try_clone()
                .map_err(|error| Error::io("connect to the sandbox", error))?;
            Ok((orders, OwnedFd::from(events), OwnedFd::from(ours)))
        });
        match transferred {
            Ok((orders, events, ours)) => {
                *self.events.lock_unpoisoned() = Arc::new(ours);
                let _ = sender.send(events);
                Ok(orders)
            }
            Err(error) => {
                // If the old box has ended, the event reader finds the sender dropped.
                lock(&self.state).successor = None;
                Err(error)
            }
        }
    }
}
