//! Length-prefixed frames over a unix stream socket. Descriptors sent with a frame arrive before
//! its last byte, in order.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

use super::wire::malformed;

/// Limits the body of a frame. Larger than any argument list plus environment.
const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;
const CHUNK: usize = 16 * 1024;
/// Limits how long the rest of a frame may take whose first part was sent without waiting.
const PARTIAL_FRAME_TIMEOUT: Duration = Duration::from_secs(1);
/// Limits the descriptors sent with one frame.
pub(crate) const MAX_DESCRIPTORS: usize = 16;

/// Sends one frame. Blocks while the socket is full. `E2BIG` if it exceeds [`MAX_FRAME_BYTES`].
pub(crate) fn send_frame(
    socket: BorrowedFd<'_>,
    body: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    send_frame_within(None, socket, body, descriptors)
}

/// As [`send_frame`], for at most `timeout`. `EAGAIN` with nothing sent if the peer does not read;
/// `ETIMEDOUT` if a part was sent, after which the connection is unusable. Never blocks if
/// `timeout` is zero, unless a part was sent.
pub(crate) fn send_frame_within(
    timeout: Option<Duration>,
    socket: BorrowedFd<'_>,
    body: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let begun = Instant::now();
    // Without a limit, the socket blocks or not as it was set.
    let flags = match timeout {
        Some(_) => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        None => SendFlags::NOSIGNAL,
    };
    if body.len() > MAX_FRAME_BYTES {
        return Err(Errno::TOOBIG.into());
    }
    let length = u32::try_from(body.len())
        .map_err(|_| malformed())?
        .to_le_bytes();
    let total = length.len() + body.len();
    let mut sent = 0;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    while sent < total {
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if sent == 0
            && !descriptors.is_empty()
            && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "too many descriptors for one frame",
            ));
        }
        let head = IoSlice::new(length.get(sent..).unwrap_or_default());
        let rest = IoSlice::new(&body[sent.saturating_sub(length.len())..]);
        match sendmsg(socket, &[head, rest], &mut ancillary, flags) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let limit = match timeout {
                    Some(timeout) if sent > 0 => Some(timeout.max(PARTIAL_FRAME_TIMEOUT)),
                    other => other,
                };
                wait_writable(
                    socket,
                    limit.map(|limit| limit.saturating_sub(begun.elapsed())),
                )
                .map_err(|errno| match errno {
                    Errno::AGAIN if sent > 0 => Errno::TIMEDOUT,
                    errno => errno,
                })?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Waits until a socket can be written. `EAGAIN` after `timeout`.
fn wait_writable(socket: BorrowedFd<'_>, timeout: Option<Duration>) -> rustix::io::Result<()> {
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(Errno::AGAIN);
    }
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(
        &mut [PollFd::new(&socket, PollFlags::OUT)],
        timeout.as_ref(),
    ) {
        Ok(0) => Err(Errno::AGAIN),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Buffer of received bytes and descriptors.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    /// Received descriptors are closed at once.
    refuses_descriptors: bool,
}

impl Incoming {
    /// Creates a buffer for data from a box. It closes descriptors on arrival, because init sends
    /// none and a box must not be able to fill the host's descriptor table.
    pub(crate) fn from_box() -> Self {
        Self {
            refuses_descriptors: true,
            ..Self::default()
        }
    }

    /// Creates a buffer that already holds `bytes`.
    #[cfg(fuzzing)]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            ..Self::from_box()
        }
    }

    /// Receives once from the socket. Returns `false` at the end of the stream.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> rustix::io::Result<bool> {
        let filled = self.bytes.len();
        self.bytes.resize(filled + CHUNK, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let outcome = recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut self.bytes[filled..])],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        );
        self.bytes
            .truncate(filled + outcome.as_ref().map_or(0, |message| message.bytes));
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message
                && !self.refuses_descriptors
            {
                self.descriptors.extend(descriptors);
            }
        }
        outcome.map(|message| message.bytes > 0)
    }

    /// Takes the body of the next complete frame.
    pub(crate) fn next_frame(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((length, rest)) = self.bytes.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| malformed())?;
        if length > MAX_FRAME_BYTES {
            return Err(malformed());
        }
        if rest.len() < length {
            return Ok(None);
        }
        let body = rest[..length].to_vec();
        self.bytes.drain(..4 + length);
        Ok(Some(body))
    }

    /// Takes the next received descriptor.
    pub(crate) fn descriptor(&mut self) -> io::Result<OwnedFd> {
        self.descriptors.pop_front().ok_or_else(malformed)
    }
}

/// Blocking connection that exchanges frames.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    incoming: Incoming,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            incoming: Incoming::default(),
        }
    }

    /// Creates a connection to the init of a box. Descriptors it sends are closed.
    pub(crate) fn to_box(socket: OwnedFd) -> Self {
        Self {
            socket,
            incoming: Incoming::from_box(),
        }
    }

    pub(crate) fn send(&self, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send_frame(self.socket.as_fd(), body, descriptors)
    }

    /// As [`send`](Self::send), for at most `timeout`. After an error that is `EAGAIN` or
    /// `ETIMEDOUT`, the peer does not read.
    pub(crate) fn send_within(
        &self,
        timeout: Duration,
        body: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        send_frame_within(Some(timeout), self.socket.as_fd(), body, descriptors)
    }

    /// Waits for a frame. `None` if the peer has closed the connection.
    pub(crate) fn wait(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(body) = self.incoming.next_frame()? {
                return Ok(Some(body));
            }
            match self.incoming.receive(self.socket.as_fd()) {
                Ok(true) | Err(Errno::INTR) => {}
                Ok(false) | Err(Errno::CONNRESET) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    pub(crate) fn descriptor(&mut self) -> io::Result<OwnedFd> {
        self.incoming.descriptor()
    }

    /// Returns the socket and what was received but not taken yet.
    pub(crate) fn into_parts(self) -> (OwnedFd, Incoming) {
        (self.socket, self.incoming)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn frame_larger_than_socket_buffer_arrives_with_descriptors() {
        let (one, other) = UnixStream::pair().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, b"through").unwrap();
        drop(writer);
        let body: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let expected = body.clone();
        let sender = std::thread::spawn(move || {
            let connection = Connection::new(one.into());
            connection.send(b"first", &[]).unwrap();
            connection.send(&body, &[reader.as_fd()]).unwrap();
        });
        let mut connection = Connection::new(other.into());
        assert_eq!(connection.wait().unwrap().unwrap(), b"first");
        assert!(connection.wait().unwrap().unwrap() == expected);
        let mut text = String::new();
        File::from(connection.descriptor().unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "through");
        assert!(connection.descriptor().is_err());
        sender.join().unwrap();
        assert!(connection.wait().unwrap().is_none());
    }

    #[test]
    fn descriptors_from_box_are_closed_on_arrival() {
        let (one, other) = UnixStream::pair().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        send_frame(one.as_fd(), b"here", &[writer.as_fd(), writer.as_fd()]).unwrap();
        drop(writer);
        let mut connection = Connection::to_box(other.into());
        assert_eq!(connection.wait().unwrap().unwrap(), b"here");
        assert!(connection.descriptor().is_err());
        // The write end is closed everywhere.
        assert_eq!(std::io::read_to_string(reader).unwrap(), "");
    }
}
