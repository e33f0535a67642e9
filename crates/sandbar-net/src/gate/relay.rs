//! Moves the bytes of a connection that was allowed.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    net::Shutdown,
    pipe::{PipeFlags, SpliceFlags},
};
use tokio::{io::Interest, net::TcpStream, task::coop::consume_budget};

use crate::{meter::Meter, traffic::Direction};

/// What a connection that says little is copied through. One that fills it gets a pipe.
const BUFFER: usize = 16 * 1024;

/// Wanted sizes of a pipe; what an ordinary user may have is less on some machines.
const PIPE_SIZES: [usize; 2] = [1024 * 1024, 256 * 1024];

/// The size of a pipe nobody asked to be larger.
const SMALLEST_PIPE: usize = 64 * 1024;

/// Sends `prefix` to the other side, then moves bytes both ways until both sides have ended what they say. When one side
/// breaks, both are cut with a reset, so that neither takes a part for the whole.
pub(crate) async fn relay(client: &TcpStream, upstream: &TcpStream, prefix: &[u8], meter: &Meter) {
    let up = async {
        send_all(upstream, prefix, meter, Direction::Sent).await?;
        pump(client, upstream, meter, Direction::Sent).await
    };
    let down = pump(upstream, client, meter, Direction::Received);
    if tokio::try_join!(up, down).is_err() {
        cut(client);
        cut(upstream);
    }
}

/// A connection that is closed after this is reset.
pub(crate) fn cut(stream: &TcpStream) {
    // It fails only where the connection is gone already.
    let _ = stream.set_zero_linger();
}

/// Moves what one side says until it has ended, and tells the other that it has.
pub(crate) async fn pump(from: &TcpStream, to: &TcpStream, meter: &Meter, direction: Direction) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut may_want_pipe = true;
    loop {
        from.readable().await?;
        let reserved = meter.reserved(buffer.len()).await;
        let read = from.try_read(&mut buffer[..reserved]);
        meter.moved(direction, reserved, *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return end(to),
            Ok(length) => {
                write_all(to, &buffer[..length]).await?;
                if length == BUFFER && may_want_pipe {
                    match Pipe::open() {
                        Ok(pipe) => {
                            drop(buffer);
                            return pipe.pump(from, to, meter, direction).await;
                        }
                        Err(error) => tracing::debug!(%error, "no pipe for a connection; its bytes are copied"),
                    }
                    may_want_pipe = false;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        consume_budget().await;
    }
}

/// Writes bytes that were read before there was anybody to move them.
pub(crate) async fn send_all(to: &TcpStream, bytes: &[u8], meter: &Meter, direction: Direction) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let reserved = meter.reserved(rest.len()).await;
        let (now, later) = rest.split_at(reserved);
        meter.moved(direction, reserved, now.len());
        write_all(to, now).await?;
        rest = later;
    }
    Ok(())
}

async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// No more comes from the other side.
pub(super) fn end(to: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(to, Shutdown::Write) {
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Bytes on their way from one socket to another, which the kernel moves without copying them.
struct Pipe {
    entrance: OwnedFd,
    exit: OwnedFd,
    size: usize,
}

impl Pipe {
    fn open() -> io::Result<Self> {
        let (exit, entrance) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let grown = PIPE_SIZES.iter().find_map(|size| rustix::pipe::fcntl_setpipe_size(&entrance, *size).ok());
        Ok(Self { entrance, exit, size: grown.unwrap_or(SMALLEST_PIPE) })
    }

    async fn pump(self, from: &TcpStream, to: &TcpStream, meter: &Meter, direction: Direction) -> io::Result<()> {
        loop {
            from.readable().await?;
            let reserved = meter.reserved(self.size).await;
            // The pipe is empty here, so that "would block" is always said of the socket.
            let taken = from.try_io(Interest::READABLE, || splice(from, &self.entrance, reserved));
            meter.moved(direction, reserved, *taken.as_ref().unwrap_or(&0));
            match taken {
                Ok(0) => return end(to),
                Ok(length) => self.empty(to, length).await?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            consume_budget().await;
        }
    }

    async fn empty(&self, to: &TcpStream, mut length: usize) -> io::Result<()> {
        while length > 0 {
            match to.try_io(Interest::WRITABLE, || splice(&self.exit, to, length)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(given) => length -= given,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn splice(from: impl AsFd, to: impl AsFd, most: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    loop {
        match rustix::pipe::splice(from.as_fd(), None, to.as_fd(), None, most, flags) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use sandbar_core::{ByteCount, NetworkLimits};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::traffic::TrafficCounters;

    /// A connection and its other end.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (outer, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (outer.unwrap(), accepted.unwrap().0)
    }

    struct Relayed {
        client: TcpStream,
        server: TcpStream,
        traffic: Arc<TrafficCounters>,
        task: tokio::task::JoinHandle<()>,
    }

    async fn relayed(prefix: &'static [u8], limits: NetworkLimits) -> Relayed {
        let ((client, inner), (server, upstream)) = (pair().await, pair().await);
        let traffic = Arc::new(TrafficCounters::default());
        let meter = Meter::new(&limits, Arc::clone(&traffic));
        let task = tokio::spawn(async move { relay(&inner, &upstream, prefix, &meter).await });
        Relayed { client, server, traffic, task }
    }

    const MUCH: usize = 64 * 1024 * 1024;

    /// No two parts of it are alike.
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut state = 1_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()
        };
        (0..8192).flat_map(next).collect()
    });

    /// Bytes that differ from place to place and from stream to stream.
    fn chunk(seed: u64, at: usize) -> Vec<u8> {
        let mut bytes = NOISE.clone();
        bytes[..8].copy_from_slice(&(seed << 48 | at as u64).to_le_bytes());
        bytes
    }

    async fn say(mut to: impl AsyncWriteExt + Unpin, seed: u64) {
        let mut at = 0;
        while at < MUCH {
            let bytes = chunk(seed, at);
            to.write_all(&bytes).await.unwrap();
            at += bytes.len();
        }
        to.shutdown().await.unwrap();
    }

    async fn hear(mut from: impl AsyncReadExt + Unpin, seed: u64) {
        let (mut at, mut heard) = (0, vec![0; 65536]);
        while at < MUCH {
            from.read_exact(&mut heard).await.unwrap();
            assert!(heard == chunk(seed, at), "what was heard at {at} is not what was said");
            at += heard.len();
        }
        assert_eq!(from.read(&mut heard).await.unwrap(), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn much_goes_both_ways_at_once_and_arrives_as_it_was_sent() {
        let relayed = relayed(b"", NetworkLimits::default()).await;
        let (client_read, client_write) = relayed.client.into_split();
        let (server_read, server_write) = relayed.server.into_split();
        let (up, down) = (tokio::spawn(say(client_write, 1)), tokio::spawn(say(server_write, 2)));
        let (at_server, at_client) = (tokio::spawn(hear(server_read, 1)), tokio::spawn(hear(client_read, 2)));
        for task in [up, down, at_server, at_client, relayed.task] {
            task.await.unwrap();
        }
        let counted = relayed.traffic.snapshot();
        assert_eq!((counted.bytes_sent, counted.bytes_received), (MUCH as u64, MUCH as u64));
    }

    #[tokio::test]
    async fn one_side_can_end_and_still_hear_the_other() {
        let mut relayed = relayed(b"first, ", NetworkLimits::default()).await;
        relayed.client.write_all(b"then the rest").await.unwrap();
        relayed.client.shutdown().await.unwrap();
        let mut heard = String::new();
        relayed.server.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "first, then the rest");
        relayed.server.write_all(b"an answer").await.unwrap();
        relayed.server.shutdown().await.unwrap();
        heard.clear();
        relayed.client.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "an answer");
        relayed.task.await.unwrap();
        let counted = relayed.traffic.snapshot();
        assert_eq!((counted.bytes_sent, counted.bytes_received), (20, 9));
    }

    #[tokio::test]
    async fn a_server_that_breaks_off_is_not_taken_for_one_that_ends() {
        let mut relayed = relayed(b"", NetworkLimits::default()).await;
        relayed.server.write_all(b"half of").await.unwrap();
        let mut heard = [0; 7];
        relayed.client.read_exact(&mut heard).await.unwrap();
        relayed.server.set_zero_linger().unwrap();
        drop(relayed.server);
        let error = relayed.client.read(&mut heard).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        relayed.task.await.unwrap();
    }

    #[tokio::test]
    async fn a_relay_that_is_cancelled_closes_both_ends() {
        let mut relayed = relayed(b"", NetworkLimits::default()).await;
        relayed.client.write_all(b"x").await.unwrap();
        relayed.server.read_exact(&mut [0]).await.unwrap();
        relayed.task.abort();
        assert_eq!(relayed.client.read(&mut [0]).await.unwrap_or(0), 0);
        assert_eq!(relayed.server.read(&mut [0]).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn what_is_over_the_limit_waits_and_is_not_lost() {
        let limits = NetworkLimits { bytes_per_second: Some(ByteCount(100_000)), ..NetworkLimits::default() };
        let mut relayed = relayed(b"", limits).await;
        let sent = chunk(7, 0).repeat(2);
        let (mut read, mut write) = relayed.server.split();
        let mut heard = vec![0; sent.len()];
        let (from_client, from_server) =
            tokio::join!(async { relayed.client.write_all(&sent).await }, read.read_exact(&mut heard));
        from_client.unwrap();
        from_server.unwrap();
        assert!(heard == sent);
        write.shutdown().await.unwrap();
        drop(relayed.client);
        relayed.task.await.unwrap();
        assert_eq!(relayed.traffic.snapshot().bytes_sent, sent.len() as u64);
    }
}
