//! Ways into the readers of this crate for the fuzzer. Each takes any bytes, and panics where a promise is broken.

use std::{fmt::Debug, io};

pub use crate::cgroup::fuzzing::cgroup_files;
use crate::{
    process_tree,
    protocol::{Event, ExecAnswer, Incoming, Order, Request, SpawnerAnswer, SpawnerRequest},
};

/// What init and the host say to each other, in both directions.
pub fn init_messages(bytes: &[u8]) {
    survives(bytes, Request::decode, Request::encode);
    survives(bytes, Event::decode, Event::encode);
    survives(bytes, ExecAnswer::decode, ExecAnswer::encode);
    let _ = Order::decode(bytes);
}

/// What the spawner and the host say to each other, in both directions.
pub fn spawner_messages(bytes: &[u8]) {
    survives(bytes, SpawnerRequest::decode, SpawnerRequest::encode);
    survives(bytes, SpawnerAnswer::decode, SpawnerAnswer::encode);
}

/// A stream of frames.
pub fn frames(bytes: &[u8]) {
    let mut incoming = Incoming::of(bytes);
    let mut taken = 0;
    while let Ok(Some(frame)) = incoming.next_frame() {
        taken += 4 + frame.len();
        assert!(taken <= bytes.len(), "more came out than went in");
    }
}

/// `/proc/PID/stat`.
pub fn process_stat(bytes: &[u8]) {
    let _ = process_tree::parse(7, &String::from_utf8_lossy(bytes));
}

/// What was understood of a message is understood of it again when it was written.
fn survives<T: Debug>(bytes: &[u8], decode: impl Fn(&[u8]) -> io::Result<T>, encode: impl Fn(&T) -> Vec<u8>) {
    if let Ok(message) = decode(bytes) {
        let again = decode(&encode(&message)).ok();
        assert_eq!(again.map(|again| format!("{again:?}")), Some(format!("{message:?}")), "a message changed");
    }
}
