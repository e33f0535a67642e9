//! Closing mount clones off the request path.

use std::{
    sync::{
        Mutex, PoisonError,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
};

use sandbar_core::{Error, Result};

use crate::mount_clone::MountClone;

/// Queue limit; each clone is an open descriptor.
const WAITING: usize = 64;

/// Thread that closes mount clones. Closing one waits for an RCU grace period, which takes twice as
/// long as creating and using it. Joined when the store closes.
#[derive(Debug)]
pub(super) struct Closer {
    clones: Mutex<Option<SyncSender<MountClone>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Closer {
    pub(super) fn start() -> Result<Self> {
        let (sender, receiver) = sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("sandbar-closer".into())
            .spawn(move || receiver.into_iter().for_each(drop::<MountClone>))
            .map_err(|error| Error::io("start the closer thread", error))?;
        Ok(Self {
            clones: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Closes a clone, in the background if the queue has room.
    pub(super) fn close(&self, clone: MountClone) {
        let sender = self
            .clones
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(sender) = sender
            && let Err(TrySendError::Full(clone) | TrySendError::Disconnected(clone)) =
                sender.try_send(clone)
        {
            drop(clone);
        }
    }

    /// Waits until every clone is closed.
    pub(super) fn stop(&self) {
        self.clones
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::warn!("the closer thread panicked");
        }
    }
}
