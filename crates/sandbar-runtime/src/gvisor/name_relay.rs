//! Names on the loopback of a container.
//!
//! Programs without a list of name servers ask 127.0.0.1, and many lists name a server there. A container has a network
//! stack of its own, so that the gate does not see what goes to its loopback: a process of ours beside init passes it on.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};
use sandbar_netns::GATEWAY_V4;

use crate::native::capabilities;

const PORT: u16 = 53;

/// Where name servers of a machine listen.
const PLACES: [SocketAddr; 3] = [
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), PORT),
    SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), PORT),
];

/// Questions under way; older ones are forgotten. Who asked asks again.
const MOST_QUESTIONS: usize = 64;
const MOST_CONNECTIONS: usize = 16;
const LONGEST_MESSAGE: usize = 65_535;
/// How long a connection may say nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Begins a process that passes names on, as this user, until the container ends.
pub(super) fn start(user: u32) -> io::Result<()> {
    // SAFETY: this process has one thread, so that the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _ = run(user);
            // SAFETY: leaves without unwinding; there is nothing to clean up in here.
            unsafe { libc::_exit(1) }
        }
        _ => Ok(()),
    }
}

fn run(user: u32) -> io::Result<()> {
    const MOST_INHERITED: i32 = 64;
    for number in 0..MOST_INHERITED {
        // SAFETY: closes what this copy of init has no owner for any more.
        unsafe { libc::close(number) };
    }
    let datagrams: Vec<UdpSocket> = PLACES.iter().filter_map(|place| UdpSocket::bind(place).ok()).collect();
    let connections: Vec<TcpListener> = PLACES.iter().filter_map(|place| TcpListener::bind(place).ok()).collect();
    capabilities::keep_as(user)?;
    capabilities::drop_all()?;
    let mut relay = Relay { datagrams, connections, questions: Vec::new(), counted: Arc::new(()) };
    loop {
        relay.turn()?;
    }
}

struct Relay {
    datagrams: Vec<UdpSocket>,
    connections: Vec<TcpListener>,
    questions: Vec<Question>,
    /// Held by every connection.
    counted: Arc<()>,
}

/// A question that was passed on.
struct Question {
    passed_on: UdpSocket,
    from: SocketAddr,
    /// Which of our sockets it came through.
    through: usize,
}

impl Relay {
    /// Waits for something to do, and does it.
    fn turn(&mut self) -> io::Result<()> {
        let datagrams = self.datagrams.iter().map(AsFd::as_fd);
        let connections = self.connections.iter().map(AsFd::as_fd);
        let questions = self.questions.iter().map(|question| question.passed_on.as_fd());
        let sockets: Vec<_> = datagrams.chain(connections).chain(questions).collect();
        let mut waiting: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        match poll(&mut waiting, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<bool> = waiting.iter().map(|socket| !socket.revents().is_empty()).collect();
        let (asked, rest) = ready.split_at(self.datagrams.len());
        let (connected, answered) = rest.split_at(self.connections.len());
        let mut answered = answered.iter();
        self.questions.retain(|question| {
            let is_answered = answered.next() == Some(&true);
            if is_answered {
                // Who has gone does not hear it.
                let _ = question.answer(&self.datagrams[question.through]);
            }
            !is_answered
        });
        for through in indices(asked) {
            if let Ok(question) = pass_on(&self.datagrams[through], through) {
                if self.questions.len() >= MOST_QUESTIONS {
                    self.questions.remove(0);
                }
                self.questions.push(question);
            }
        }
        for index in indices(connected) {
            let Ok((stream, _)) = self.connections[index].accept() else { continue };
            if Arc::strong_count(&self.counted) <= MOST_CONNECTIONS {
                let counted = Arc::clone(&self.counted);
                // A thread that cannot be had closes the connection.
                let _ = std::thread::Builder::new().spawn(move || {
                    let outcome = converse(stream);
                    drop(counted);
                    outcome
                });
            }
        }
        Ok(())
    }
}

fn indices(ready: &[bool]) -> impl Iterator<Item = usize> {
    ready.iter().enumerate().filter(|(_, ready)| **ready).map(|(index, _)| index)
}

fn pass_on(socket: &UdpSocket, through: usize) -> io::Result<Question> {
    let mut message = vec![0; LONGEST_MESSAGE];
    let (length, from) = socket.recv_from(&mut message)?;
    let passed_on = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    passed_on.connect((GATEWAY_V4, PORT))?;
    passed_on.send(&message[..length])?;
    Ok(Question { passed_on, from, through })
}

impl Question {
    fn answer(&self, socket: &UdpSocket) -> io::Result<()> {
        let mut message = vec![0; LONGEST_MESSAGE];
        let length = self.passed_on.recv(&mut message)?;
        socket.send_to(&message[..length], self.from).map(drop)
    }
}

/// One question and its answer after the other.
fn converse(mut inside: TcpStream) -> io::Result<()> {
    let mut gate = TcpStream::connect((GATEWAY_V4, PORT))?;
    for stream in [&inside, &gate] {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
    }
    loop {
        copy_message(&mut inside, &mut gate)?;
        copy_message(&mut gate, &mut inside)?;
    }
}

/// A message begins with its length.
fn copy_message(from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
    let mut length = [0; 2];
    from.read_exact(&mut length)?;
    let mut message = length.to_vec();
    message.resize(2 + usize::from(u16::from_be_bytes(length)), 0);
    from.read_exact(&mut message[2..])?;
    to.write_all(&message)
}
