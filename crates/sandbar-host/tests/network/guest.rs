//! The program in a session that tries to reach things. Starting it costs more than most of what it
//! does, so it stays.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use sandbar_core::{ExecEvent, ExecSpec, SessionId, StdinMode};
use sandbar_host::Host;
use sandbar_runtime::RunningCommand;

pub(crate) const PROGRAM: &str = include_str!("guest.py");

/// Guests that have nothing to do, by session.
#[derive(Debug, Default)]
pub(crate) struct Guests(Mutex<HashMap<SessionId, Vec<RunningCommand>>>);

impl Guests {
    /// Has one attempt made, by a guest that is free or by a new one, and hands over what it says
    /// of it.
    pub(crate) async fn attempt(&self, host: &Host, id: &SessionId, arguments: &[&str]) -> String {
        let mut free = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(id.clone())
            .or_default()
            .pop();
        loop {
            // One that was there before may have ended with its box.
            let (mut guest, is_new) = match free.take() {
                Some(guest) => (guest, false),
                None => (start(host, id).await, true),
            };
            match ask(&mut guest, arguments).await {
                Ok(line) => {
                    let mut guests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                    guests.entry(id.clone()).or_default().push(guest);
                    return line;
                }
                Err(said) => assert!(!is_new && said.is_empty(), "{arguments:?}: {said}"),
            }
        }
    }

    /// Ends those of a session that have nothing to do.
    pub(crate) fn dismiss(&self, id: &SessionId) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
    }
}

async fn start(host: &Host, id: &SessionId) -> RunningCommand {
    let spec = ExecSpec {
        stdin: StdinMode::Piped,
        ..ExecSpec::new(["/usr/bin/python3", "guest.py"])
    };
    host.exec(id, spec).await.unwrap()
}

/// The error is what a guest that has ended complained about.
async fn ask(guest: &mut RunningCommand, arguments: &[&str]) -> Result<String, String> {
    let mut line = serde_json::to_vec(arguments).unwrap();
    line.push(b'\n');
    if guest.stdin().unwrap().write(line.into()).await.is_err() {
        return Err(String::new());
    }
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    while let Some(event) = guest.next_event().await {
        match event {
            ExecEvent::Stdout(bytes) => output.extend_from_slice(&bytes),
            ExecEvent::Stderr(bytes) => errors.extend_from_slice(&bytes),
            ExecEvent::Exited(_) => break,
        }
        if output.ends_with(b"\n") {
            return Ok(String::from_utf8_lossy(&output).trim_end().to_owned());
        }
    }
    Err(String::from_utf8_lossy(&errors).into_owned())
}
