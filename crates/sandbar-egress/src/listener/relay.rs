//! Relays the bytes of an allowed connection.

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

/// Copy buffer. A connection that fills it at once is spliced through a pipe instead.
const BUFFER_BYTES: usize = 16 * 1024;

/// Pipe sizes to try. `/proc/sys/fs/pipe-max-size` limits them for unprivileged users.
const PIPE_BYTES: [usize; 2] = [1024 * 1024, 256 * 1024];

/// Size of a pipe that could not be enlarged.
const DEFAULT_PIPE_BYTES: usize = 64 * 1024;

/// Sends `prefix` upstream, then relays bytes both ways until both sides have closed. If one side
/// fails, both are reset, so that neither mistakes a truncated stream for a complete one.
pub(crate) async fn relay(client: &TcpStream, upstream: &TcpStream, prefix: &[u8], meter: &Meter) {
    let up = async {
        send_all(upstream, prefix, meter, Direction::Sent).await?;
        pump(client, upstream, meter, Direction::Sent).await
    };
    let down = pump(upstream, client, meter, Direction::Received);
    if tokio::try_join!(up, down).is_err() {
        reset_on_close(client);
        reset_on_close(upstream);
    }
}

/// Makes the kernel reset the connection when it is closed.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // Fails only if the connection is closed already.
    let _ = stream.set_zero_linger();
}

/// Relays one direction until its end, then sends FIN to the other side.
pub(crate) async fn pump(
    from: &TcpStream,
    to: &TcpStream,
    meter: &Meter,
    direction: Direction,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
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
                if length == BUFFER_BYTES && may_want_pipe {
                    match Pipe::open() {
                        Ok(pipe) => {
                            drop(buffer);
                            return pipe.pump(from, to, meter, direction).await;
                        }
                        Err(error) => {
                            tracing::debug!(%error, "could not open a pipe; bytes are copied");
                        }
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

/// Writes bytes that were read before the relay started.
pub(crate) async fn send_all(
    to: &TcpStream,
    bytes: &[u8],
    meter: &Meter,
    direction: Direction,
) -> io::Result<()> {
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

/// Sends FIN: no more bytes follow.
pub(super) fn end(to: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(to, Shutdown::Write) {
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Pipe between two sockets, for `splice` without copies to user space.
struct Pipe {
    write_end: OwnedFd,
    read_end: OwnedFd,
    size: usize,
}

impl Pipe {
    fn open() -> io::Result<Self> {
        let (read_end, write_end) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let grown = PIPE_BYTES
            .iter()
            .find_map(|size| rustix::pipe::fcntl_setpipe_size(&write_end, *size).ok());
        Ok(Self {
            write_end,
            read_end,
            size: grown.unwrap_or(DEFAULT_PIPE_BYTES),
        })
    }

    async fn pump(
        self,
        from: &TcpStream,
        to: &TcpStream,
        meter: &Meter,
        direction: Direction,
    ) -> io::Result<()> {
        loop {
            from.readable().await?;
            let reserved = meter.reserved(self.size).await;
            // The pipe is empty here, so that `EAGAIN` always refers to the socket.
            let taken = from.try_io(Interest::READABLE, || {
                splice(from, &self.write_end, reserved)
            });
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
            match to.try_io(Interest::WRITABLE, || splice(&self.read_end, to, length)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(given) => length -= given,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn splice(from: impl AsFd, to: impl AsFd, max: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    loop {
        match rustix::pipe::splice(from.as_fd(), None, to.as_fd(), None, max, flags) {
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

    /// Returns both ends of a connection.
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
        Relayed {
            client,
            server,
            traffic,
            task,
        }
    }

    const STREAM_BYTES: usize = 64 * 1024 * 1024;

    /// Pseudo-random bytes without repetition.
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut state = 1_u64;
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()
        };
        (0..8192).flat_map(next).collect()
    });

    /// Returns bytes that differ by position and by stream.
    fn chunk(seed: u64, at: usize) -> Vec<u8> {
        let mut bytes = NOISE.clone();
        bytes[..8].copy_from_slice(&(seed << 48 | at as u64).to_le_bytes());
        bytes
    }

    async fn send(mut to: impl AsyncWriteExt + Unpin, seed: u64) {
        let mut at = 0;
        while at < STREAM_BYTES {
            let bytes = chunk(seed, at);
            to.write_all(&bytes).await.unwrap();
            at += bytes.len();
        }
        to.shutdown().await.unwrap();
    }

    async fn receive(mut from: impl AsyncReadExt + Unpin, seed: u64) {
        let (mut at, mut received) = (0, vec![0; 65536]);
        while at < STREAM_BYTES {
            from.read_exact(&mut received).await.unwrap();
            assert!(
                received == chunk(seed, at),
                "bytes at {at} differ from those sent"
            );
            at += received.len();
        }
        assert_eq!(from.read(&mut received).await.unwrap(), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_streams_arrive_unchanged_both_ways() {
        let relayed = relayed(b"", NetworkLimits::default()).await;
        let (client_read, client_write) = relayed.client.into_split();
        let (server_read, server_write) = relayed.server.into_split();
        let (up, down) = (
            tokio::spawn(send(client_write, 1)),
            tokio::spawn(send(server_write, 2)),
        );
        let (at_server, at_client) = (
            tokio::spawn(receive(server_read, 1)),
            tokio::spawn(receive(client_read, 2)),
        );
        for task in [up, down, at_server, at_client, relayed.task] {
            task.await.unwrap();
        }
        let counted = relayed.traffic.snapshot();
        assert_eq!(
            (counted.bytes_sent, counted.bytes_received),
            (STREAM_BYTES as u64, STREAM_BYTES as u64)
        );
    }

    #[tokio::test]
    async fn half_closed_connection_still_receives() {
        let mut relayed = relayed(b"first, ", NetworkLimits::default()).await;
        relayed.client.write_all(b"then the rest").await.unwrap();
        relayed.client.shutdown().await.unwrap();
        let mut received = String::new();
        relayed.server.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "first, then the rest");
        relayed.server.write_all(b"an answer").await.unwrap();
        relayed.server.shutdown().await.unwrap();
        received.clear();
        relayed.client.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "an answer");
        relayed.task.await.unwrap();
        let counted = relayed.traffic.snapshot();
        assert_eq!((counted.bytes_sent, counted.bytes_received), (20, 9));
    }

    #[tokio::test]
    async fn reset_by_the_server_is_passed_on() {
        let mut relayed = relayed(b"", NetworkLimits::default()).await;
        relayed.server.write_all(b"half of").await.unwrap();
        let mut received = [0; 7];
        relayed.client.read_exact(&mut received).await.unwrap();
        relayed.server.set_zero_linger().unwrap();
        drop(relayed.server);
        let error = relayed.client.read(&mut received).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        relayed.task.await.unwrap();
    }

    #[tokio::test]
    async fn cancelled_relay_closes_both_ends() {
        let mut relayed = relayed(b"", NetworkLimits::default()).await;
        relayed.client.write_all(b"x").await.unwrap();
        relayed.server.read_exact(&mut [0]).await.unwrap();
        relayed.task.abort();
        assert_eq!(relayed.client.read(&mut [0]).await.unwrap_or(0), 0);
        assert_eq!(relayed.server.read(&mut [0]).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn bytes_over_the_rate_limit_wait() {
        let limits = NetworkLimits {
            bytes_per_second: Some(ByteCount(100_000)),
            ..NetworkLimits::default()
        };
        let mut relayed = relayed(b"", limits).await;
        let sent = chunk(7, 0).repeat(2);
        let (mut read, mut write) = relayed.server.split();
        let mut received = vec![0; sent.len()];
        let (from_client, from_server) = tokio::join!(
            async { relayed.client.write_all(&sent).await },
            read.read_exact(&mut received)
        );
        from_client.unwrap();
        from_server.unwrap();
        assert!(received == sent);
        write.shutdown().await.unwrap();
        drop(relayed.client);
        relayed.task.await.unwrap();
        assert_eq!(relayed.traffic.snapshot().bytes_sent, sent.len() as u64);
    }
}
