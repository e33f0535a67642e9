//! Cost of the network of a session.

use std::time::Instant;

use sandbar_testing::measure::{Report, middle, milliseconds};

pub(crate) fn measure(rounds: usize, report: &mut Report) {
    let opened: Vec<f64> = (0..rounds).map(|_| open()).collect();
    report.figure(
        "network: opening the gate of a namespace".into(),
        middle(&opened),
        "ms",
        Some(1.0),
    );
    let again: Vec<f64> = (0..rounds).map(|_| reopen()).collect();
    report.figure(
        "network: other UDP ports for a gate".into(),
        middle(&again),
        "ms",
        Some(1.0),
    );
}

/// With the thread that goes there, as the host does it.
fn open() -> f64 {
    let namespace = sandbar_netns::create().unwrap();
    let started = Instant::now();
    let gate =
        sandbar_netns::in_namespace(&namespace, || sandbar_netns::open_listeners(&[123])).unwrap();
    let took = milliseconds(started);
    drop(gate);
    took
}

fn reopen() -> f64 {
    let namespace = sandbar_netns::create().unwrap();
    let gate =
        sandbar_netns::in_namespace(&namespace, || sandbar_netns::open_listeners(&[123])).unwrap();
    let started = Instant::now();
    let fresh = sandbar_netns::in_namespace(&namespace, || sandbar_netns::reopen_udp(&[123, 4433]))
        .unwrap();
    let took = milliseconds(started);
    drop((gate, fresh));
    took
}
