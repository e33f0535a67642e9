//! What a panic has to say, kept until there is a screen to say it on.

use std::{
    panic,
    sync::{Mutex, PoisonError},
};

use crate::output;

static MESSAGE: Mutex<Option<String>> = Mutex::new(None);

/// While this lives, the message of a panic is not written into a screen that is about to vanish. It is said when this is
/// dropped: keep it longer than the screen.
#[derive(Debug)]
pub(crate) struct PanicMessage(());

impl PanicMessage {
    pub(crate) fn keep() -> Self {
        panic::set_hook(Box::new(|info| {
            MESSAGE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| info.to_string());
        }));
        Self(())
    }
}

impl Drop for PanicMessage {
    fn drop(&mut self) {
        // A thread that panics may not change the hook.
        if !std::thread::panicking() {
            drop(panic::take_hook());
        }
        if let Some(message) = MESSAGE.lock().unwrap_or_else(PoisonError::into_inner).take() {
            output::say(message);
        }
    }
}
