//! The server on the other side, with a thread for every connection.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

/// Echoes its input.
pub(crate) const ECHO: u8 = 1;
/// Takes [`VOLUME`] bytes, then says one.
pub(crate) const SINK: u8 = 2;
/// Gives [`VOLUME`] bytes.
pub(crate) const SOURCE: u8 = 3;

pub(crate) const VOLUME: usize = 256 << 20;

/// Starts it at an address of this machine; returns its port.
pub(crate) fn start(address: &str) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || serve(stream));
        }
    });
    port
}

/// A client that goes away ends it.
fn serve(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut service = [0; 2];
    stream.read_exact(&mut service).ok()?;
    let mut buffer = vec![0; 128 << 10];
    let mut left = VOLUME;
    match service[1] {
        SINK => {
            while left > 0 {
                left -= stream.read(&mut buffer).ok().filter(|length| *length > 0)?;
            }
            stream.write_all(&[1]).ok()
        }
        SOURCE => {
            while left > 0 {
                stream.write_all(&buffer).ok()?;
                left -= buffer.len();
            }
            Some(())
        }
        _ => loop {
            let length = stream.read(&mut buffer).ok().filter(|length| *length > 0)?;
            stream.write_all(&buffer[..length]).ok()?;
        },
    }
}
