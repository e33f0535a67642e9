//! Fuzzing entry points for the parsers of this crate. Each takes any bytes, and panics if an
//! invariant is violated.

use std::{fmt::Debug, io};

pub use crate::cgroup::fuzzing::cgroup_files;
use crate::{
    process_tree,
    protocol::{Event, ExecAnswer, Incoming, Order, Request, SpawnerAnswer, SpawnerRequest},
};

/// Decodes messages between host and init, in both directions.
pub fn init_messages(bytes: &[u8]) {
    round_trips(bytes, Request::decode, Request::encode);
    round_trips(bytes, Event::decode, Event::encode);
    round_trips(bytes, ExecAnswer::decode, ExecAnswer::encode);
    let _ = Order::decode(bytes);
}

/// Decodes messages between host and spawner, in both directions.
pub fn spawner_messages(bytes: &[u8]) {
    round_trips(bytes, SpawnerRequest::decode, SpawnerRequest::encode);
    round_trips(bytes, SpawnerAnswer::decode, SpawnerAnswer::encode);
}

/// Splits a stream into frames.
pub fn frames(bytes: &[u8]) {
    let mut incoming = Incoming::of(bytes);
    let mut taken = 0;
    while let Ok(Some(frame)) = incoming.next_frame() {
        taken += 4 + frame.len();
        assert!(taken <= bytes.len(), "frames exceed the input");
    }
}

/// Parses `/proc/PID/stat`.
pub fn process_stat(bytes: &[u8]) {
    let _ = process_tree::parse(7, &String::from_utf8_lossy(bytes));
}

/// Asserts that a decoded message is the same after encoding and decoding it again.
fn round_trips<T: Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> io::Result<T>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    if let Ok(message) = decode(bytes) {
        let again = decode(&encode(&message)).ok();
        assert_eq!(
            again.map(|again| format!("{again:?}")),
            Some(format!("{message:?}")),
            "message changed in a round trip"
        );
    }
}
