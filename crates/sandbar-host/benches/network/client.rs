//! The client that is measured: the same program inside a session and outside. It prints
//! milliseconds.

#![expect(clippy::print_stdout, reason = "what it measured is what it is for")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use sandbar_testing::measure::{middle, milliseconds};

use crate::server::{ECHO, SINK, SOURCE, VOLUME};

pub(crate) const ROLE: &str = "--client";
pub(crate) const SEND: &str = "send";
pub(crate) const RECEIVE: &str = "receive";
pub(crate) const ROUND_TRIP: &str = "round-trip";
pub(crate) const CONNECT: &str = "connect";

const ROUND_TRIPS: usize = 2000;
const CONNECTIONS: usize = 200;

/// Measures what is asked for, against a server.
pub(crate) fn run(arguments: &[String]) {
    let (what, place) = (arguments[0].as_str(), arguments[1].as_str());
    let took = match what {
        SEND => send(place),
        RECEIVE => receive(place),
        ROUND_TRIP => round_trip(place),
        _ => connect(place),
    };
    println!("{took}");
}

fn connected(place: &str, service: u8) -> TcpStream {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_nodelay(true).unwrap();
    // Neither HTTP nor TLS from the first byte on.
    stream.write_all(&[0, service]).unwrap();
    stream
}

fn send(place: &str) -> f64 {
    let mut stream = connected(place, SINK);
    let buffer = vec![0; 128 << 10];
    let started = Instant::now();
    for _ in 0..VOLUME / buffer.len() {
        stream.write_all(&buffer).unwrap();
    }
    // The server says when it has all.
    stream.read_exact(&mut [0]).unwrap();
    milliseconds(started)
}

fn receive(place: &str) -> f64 {
    let mut stream = connected(place, SOURCE);
    let mut buffer = vec![0; 128 << 10];
    let started = Instant::now();
    let mut left = VOLUME;
    while left > 0 {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0);
        left -= length;
    }
    milliseconds(started)
}

fn round_trip(place: &str) -> f64 {
    let mut stream = connected(place, ECHO);
    let times: Vec<f64> = (0..ROUND_TRIPS).map(|_| once(&mut stream)).collect();
    middle(&times)
}

fn connect(place: &str) -> f64 {
    let times: Vec<f64> = (0..CONNECTIONS)
        .map(|_| {
            let started = Instant::now();
            once(&mut connected(place, ECHO));
            milliseconds(started)
        })
        .collect();
    middle(&times)
}

fn once(stream: &mut TcpStream) -> f64 {
    let started = Instant::now();
    let mut words = *b"a few words";
    stream.write_all(&words).unwrap();
    stream.read_exact(&mut words).unwrap();
    milliseconds(started)
}
