//! Panic messages, kept until the normal screen is restored.

use std::{panic, sync::Mutex};

use sandbar_core::MutexExt as _;

use crate::terminal::output;

static MESSAGE: Mutex<Option<String>> = Mutex::new(None);

/// Holds back the message of a panic, which would be lost with the alternate screen, and prints it
/// on drop. Must outlive the screen.
#[derive(Debug)]
pub(crate) struct PanicMessage(());

impl PanicMessage {
    pub(crate) fn keep() -> Self {
        panic::set_hook(Box::new(|info| {
            MESSAGE
                .lock_unpoisoned()
                .get_or_insert_with(|| info.to_string());
        }));
        Self(())
    }
}

impl Drop for PanicMessage {
    fn drop(&mut self) {
        // A panicking thread must not change the hook.
        if !std::thread::panicking() {
            drop(panic::take_hook());
        }
        if let Some(message) = MESSAGE.lock_unpoisoned().take() {
            output::say(message);
        }
    }
}
