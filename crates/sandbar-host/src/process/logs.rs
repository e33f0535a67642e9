//! [`Logs`]: the output of a process. A ring buffer keeps the end of each stream, for any number of
//! readers and followers.
//!
//! A lossless reader applies back-pressure: the supervisor takes no more output while such a reader
//! is far behind. Invariant: it misses nothing that is written while it exists. Its unread output
//! is a part of the ring, which has room to spare for what may still arrive after the process was
//! killed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use sandbar_core::{LogChunk, LogQuery, LogStream};
use tokio::sync::{Notify, watch};

/// Bytes kept of each stream, at most. Less in a session with many processes: see
/// [`Logs::set_capacity`].
pub(super) const RING_BYTES: usize = 1 << 20;

/// Bytes kept of each stream, at least.
pub(super) const MIN_RING_BYTES: usize = 4 << 10;

const MAX_CHUNK_BYTES: u64 = 64 << 10;

/// Switches between the streams that are remembered. Beyond it the oldest output loses its order.
const MAX_SWITCHES: usize = 4096;

/// A lossless reader may be behind by one part in this many of the ring.
const BACKLOG_DIVISOR: u64 = 4;

/// The logs of one process. [`push`](Self::push) never waits; the supervisor waits for
/// [`room`](Self::room) first.
#[derive(Debug)]
pub(crate) struct Logs {
    rings: Mutex<Rings>,
    changed: watch::Sender<()>,
    /// Signalled when a lossless reader has read something or was dropped.
    read: Notify,
}

#[derive(Debug)]
struct Rings {
    /// Bytes kept of each stream.
    capacity: usize,
    /// The capacity it began with.
    largest: usize,
    stdout: Ring,
    stderr: Ring,
    /// The stream written last.
    last: Option<LogStream>,
    /// Switches between the streams so far.
    switches: u64,
    /// Nothing more will be written.
    closed: bool,
    lossless_readers: Vec<LosslessReader>,
    /// Number of the last lossless reader.
    last_number: u64,
}

/// Offsets up to which a lossless reader has read.
#[derive(Debug)]
struct LosslessReader {
    number: u64,
    stdout: u64,
    stderr: u64,
}

/// The end of one stream.
#[derive(Debug, Default)]
struct Ring {
    bytes: VecDeque<u8>,
    /// Bytes written so far.
    end: u64,
    /// Switches to this stream, oldest first.
    switches: VecDeque<Switch>,
}

/// A point where the process switched to a stream. The numbers give the order over both streams.
#[derive(Clone, Copy, Debug)]
struct Switch {
    offset: u64,
    number: u64,
}

impl Ring {
    fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    fn push(&mut self, bytes: &[u8], capacity: usize) {
        self.end += bytes.len() as u64;
        let fits = &bytes[bytes.len().saturating_sub(capacity)..];
        let surplus = (self.bytes.len() + fits.len()).saturating_sub(capacity);
        self.drop_oldest(surplus);
        self.bytes.extend(fits);
    }

    /// Keeps the last `capacity` bytes, in no more memory than that.
    fn shrink(&mut self, capacity: usize) {
        self.drop_oldest(self.bytes.len().saturating_sub(capacity));
        self.bytes.shrink_to(capacity);
    }

    fn drop_oldest(&mut self, count: usize) {
        self.bytes.drain(..count);
        let start = self.start();
        while self
            .switches
            .get(1)
            .is_some_and(|next| next.offset <= start)
        {
            self.switches.pop_front();
        }
        if self.switches.len() > MAX_SWITCHES {
            self.switches.remove(1);
        }
    }

    /// Returns the number of the switch before `offset`, and the offset of the next one.
    fn switch_at(&self, offset: u64) -> (u64, u64) {
        let after = self
            .switches
            .partition_point(|switch| switch.offset <= offset);
        let number = after
            .checked_sub(1)
            .map_or(0, |index| self.switches[index].number);
        (
            number,
            self.switches
                .get(after)
                .map_or(self.end, |next| next.offset),
        )
    }

    /// Returns the offset at which the last `lines` lines begin.
    fn tail(&self, lines: u64) -> u64 {
        let Some(more) = usize::try_from(lines).ok().filter(|lines| *lines > 0) else {
            return if lines == 0 { self.end } else { self.start() };
        };
        let ends_with_newline = self.bytes.back() == Some(&b'\n');
        let newlines = self
            .bytes
            .iter()
            .enumerate()
            .rev()
            .skip(usize::from(ends_with_newline));
        let before = newlines.filter(|(_, byte)| **byte == b'\n').nth(more - 1);
        before.map_or(self.start(), |(index, _)| self.start() + index as u64 + 1)
    }

    fn copy(&self, from: u64, until: u64) -> Bytes {
        let index = |offset: u64| usize::try_from(offset - self.start()).unwrap_or(usize::MAX);
        let (from, until) = (index(from), index(until));
        let (front, back) = self.bytes.as_slices();
        let mut copy = Vec::with_capacity(until - from);
        copy.extend_from_slice(&front[from.min(front.len())..until.min(front.len())]);
        copy.extend_from_slice(
            &back[from.saturating_sub(front.len())..until.saturating_sub(front.len())],
        );
        copy.into()
    }
}

impl Rings {
    fn of(&self, stream: LogStream) -> &Ring {
        match stream {
            LogStream::Stdout => &self.stdout,
            LogStream::Stderr => &self.stderr,
        }
    }

    fn of_mut(&mut self, stream: LogStream) -> &mut Ring {
        match stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        }
    }

    /// Whether every lossless reader is close enough to the end.
    fn have_room(&self) -> bool {
        let max_backlog = self.capacity as u64 / BACKLOG_DIVISOR;
        self.lossless_readers.iter().all(|reader| {
            self.stdout.end.saturating_sub(reader.stdout) <= max_backlog
                && self.stderr.end.saturating_sub(reader.stderr) <= max_backlog
        })
    }

    /// Returns how many bytes of a stream are kept: the capacity, and what a lossless reader has
    /// not read if that is more. Never more than [`RING_BYTES`].
    fn kept(&self, stream: LogStream, added: usize) -> usize {
        let end = self.of(stream).end + added as u64;
        let unread = self.lossless_readers.iter().map(|reader| {
            end.saturating_sub(match stream {
                LogStream::Stdout => reader.stdout,
                LogStream::Stderr => reader.stderr,
            })
        });
        let unread = usize::try_from(unread.max().unwrap_or(0)).unwrap_or(usize::MAX);
        self.capacity.max(unread.min(self.largest))
    }

    /// Records the position of a lossless reader.
    fn note(&mut self, number: u64, cursors: &[Cursor]) {
        let Some(reader) = self
            .lossless_readers
            .iter_mut()
            .find(|reader| reader.number == number)
        else {
            return;
        };
        for cursor in cursors {
            match cursor.stream {
                LogStream::Stdout => reader.stdout = cursor.at,
                LogStream::Stderr => reader.stderr = cursor.at,
            }
        }
    }

    /// Returns the next chunk for a reader, in the order of writing.
    fn take(&self, cursors: &mut [Cursor]) -> Option<LogChunk> {
        let next = cursors.iter_mut().filter_map(|cursor| {
            let ring = self.of(cursor.stream);
            let from = cursor.at.max(ring.start());
            let (number, switch_end) = ring.switch_at(from);
            let until = switch_end
                .min(cursor.until.unwrap_or(ring.end))
                .min(from + MAX_CHUNK_BYTES);
            (from < until).then_some((number, from, until, cursor))
        });
        let (_, from, until, cursor) = next.min_by_key(|(number, ..)| *number)?;
        let missed = from - cursor.at;
        cursor.at = until;
        let bytes = self.of(cursor.stream).copy(from, until);
        Some(LogChunk {
            stream: cursor.stream,
            offset: from,
            missed,
            bytes,
        })
    }
}

impl Logs {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_capacity(RING_BYTES)
    }

    fn with_capacity(capacity: usize) -> Arc<Self> {
        let (stdout, stderr) = Default::default();
        let rings = Rings {
            capacity,
            largest: capacity,
            stdout,
            stderr,
            last: None,
            switches: 0,
            closed: false,
            lossless_readers: Vec::new(),
            last_number: 0,
        };
        Arc::new(Self {
            rings: Mutex::new(rings),
            changed: watch::Sender::new(()),
            read: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, stream: LogStream, bytes: &[u8]) {
        let mut rings = self.lock();
        if rings.last.replace(stream) != Some(stream) {
            rings.switches += 1;
            let number = rings.switches;
            let ring = rings.of_mut(stream);
            ring.switches.push_back(Switch {
                offset: ring.end,
                number,
            });
        }
        let capacity = rings.kept(stream, bytes.len());
        rings.of_mut(stream).push(bytes, capacity);
        drop(rings);
        self.changed.send_replace(());
    }

    /// Waits until no lossless reader is far behind. Only the supervisor waits here, one at a time.
    pub(super) async fn room(&self) {
        while !self.lock().have_room() {
            self.read.notified().await;
        }
    }

    /// Ends the output, and with it every follower.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.send_replace(());
    }

    /// Frees the memory, unless a lossless reader exists. Other readers see the loss in
    /// [`LogChunk::missed`].
    pub(super) fn clear(&self) {
        let mut rings = self.lock();
        if !rings.lossless_readers.is_empty() {
            return;
        }
        rings.stdout.bytes = VecDeque::new();
        rings.stderr.bytes = VecDeque::new();
    }

    /// Changes how much is kept of each stream. Output that a lossless reader has not read is kept
    /// until it has.
    pub(super) fn set_capacity(&self, capacity: usize) {
        let mut rings = self.lock();
        if rings.capacity == capacity {
            return;
        }
        rings.capacity = capacity;
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let kept = rings.kept(stream, 0);
            rings.of_mut(stream).shrink(kept);
        }
        drop(rings);
        // A larger capacity may make room.
        self.read.notify_one();
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> usize {
        let rings = self.lock();
        rings.stdout.bytes.len() + rings.stderr.bytes.len()
    }

    pub(crate) fn read(self: &Arc<Self>, query: &LogQuery) -> ProcessLogs {
        let changed = self.changed.subscribe();
        let rings = self.lock();
        let wanted = [LogStream::Stdout, LogStream::Stderr];
        let cursors = wanted
            .into_iter()
            .filter(|stream| query.stream.is_none_or(|only| only == *stream));
        let cursors = cursors.map(|stream| {
            let ring = rings.of(stream);
            let at = query.tail.map_or(0, |lines| ring.tail(lines));
            Cursor {
                stream,
                at,
                until: (!query.follow).then_some(ring.end),
            }
        });
        let cursors = cursors.collect();
        drop(rings);
        ProcessLogs {
            logs: Arc::clone(self),
            changed,
            cursors,
            number: None,
        }
    }

    /// As [`read`](Self::read), with back-pressure from now on: the reader misses nothing.
    pub(crate) fn read_lossless(self: &Arc<Self>, query: &LogQuery) -> ProcessLogs {
        let mut reader = self.read(query);
        let mut rings = self.lock();
        rings.last_number += 1;
        let number = rings.last_number;
        let (stdout, stderr) = (rings.stdout.end, rings.stderr.end);
        rings.lossless_readers.push(LosslessReader {
            number,
            stdout,
            stderr,
        });
        rings.note(number, &reader.cursors);
        drop(rings);
        reader.number = Some(number);
        reader
    }

    /// Returns the last lines of both streams, for an error message.
    pub(crate) fn last_lines(self: &Arc<Self>, lines: usize) -> String {
        let mut tail = self.read(&LogQuery {
            tail: Some(lines as u64),
            ..LogQuery::default()
        });
        let rings = self.lock();
        let mut text = Vec::new();
        while let Some(chunk) = rings.take(&mut tail.cursors) {
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(&chunk.bytes);
        }
        drop(rings);
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// Position of a reader in one stream.
#[derive(Debug)]
struct Cursor {
    stream: LogStream,
    at: u64,
    /// Offset at which it ends. `None`: it follows.
    until: Option<u64>,
}

/// One reader of the logs of a process. A slow reader misses output, and each chunk says how much;
/// a lossless one misses nothing and slows the process down.
#[derive(Debug)]
pub struct ProcessLogs {
    logs: Arc<Logs>,
    changed: watch::Receiver<()>,
    cursors: Vec<Cursor>,
    /// Set for a lossless reader.
    number: Option<u64>,
}

impl Drop for ProcessLogs {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.logs
                .lock()
                .lossless_readers
                .retain(|reader| reader.number != number);
            self.logs.read.notify_one();
        }
    }
}

impl ProcessLogs {
    /// Returns the next chunk; `None` at the end, which for a follower is the exit of the process.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<LogChunk> {
        loop {
            self.changed.borrow_and_update();
            {
                let mut rings = self.logs.lock();
                if let Some(chunk) = rings.take(&mut self.cursors) {
                    if let Some(number) = self.number {
                        rings.note(number, &self.cursors);
                        self.logs.read.notify_one();
                    }
                    return Some(chunk);
                }
                if rings.closed || self.cursors.iter().all(|cursor| cursor.until.is_some()) {
                    return None;
                }
            }
            // Cannot fail: `self` holds the logs, and they hold the sender.
            self.changed.changed().await.ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use LogStream::{Stderr, Stdout};
    use futures::FutureExt as _;

    use super::*;

    fn all(logs: &Arc<Logs>, query: &LogQuery) -> Vec<(LogStream, String)> {
        let mut reader = logs.read(query);
        let rings = logs.lock();
        let chunks = std::iter::from_fn(|| rings.take(&mut reader.cursors));
        chunks
            .map(|chunk| (chunk.stream, String::from_utf8(chunk.bytes.into()).unwrap()))
            .collect()
    }

    fn text(stream: LogStream, text: &str) -> (LogStream, String) {
        (stream, text.to_owned())
    }

    #[test]
    fn chunks_of_both_streams_keep_the_order_of_writing() {
        let logs = Logs::new();
        for (stream, bytes) in [(Stdout, "a"), (Stdout, "b"), (Stderr, "c"), (Stdout, "d")] {
            logs.push(stream, bytes.as_bytes());
        }
        assert_eq!(
            all(&logs, &LogQuery::default()),
            [text(Stdout, "ab"), text(Stderr, "c"), text(Stdout, "d")]
        );
        let only = LogQuery {
            stream: Some(Stderr),
            ..LogQuery::default()
        };
        assert_eq!(all(&logs, &only), [text(Stderr, "c")]);
    }

    #[test]
    fn smaller_capacity_keeps_the_end_and_all_unread_output() {
        let logs = Logs::with_capacity(1000);
        logs.push(Stdout, &[b'a'; 1000]);
        logs.push(Stderr, &[b'b'; 1000]);
        logs.set_capacity(100);
        assert_eq!(logs.size(), 200);
        logs.push(Stdout, b"end");
        assert_eq!(logs.size(), 200);
        assert_eq!(
            all(&logs, &LogQuery::default()).last(),
            Some(&text(Stdout, "end"))
        );
        // From here on a reader that misses nothing is behind by more than the capacity.
        let mut reader = logs.read_lossless(&LogQuery {
            follow: true,
            tail: Some(0),
            ..LogQuery::default()
        });
        for _ in 0..30 {
            logs.push(Stdout, b"0123456789");
        }
        logs.set_capacity(50);
        assert!(logs.room().now_or_never().is_none());
        let mut read = 0;
        while let Some(Some(chunk)) = reader.next().now_or_never() {
            assert_eq!(chunk.missed, 0);
            read += chunk.bytes.len();
        }
        assert_eq!(read, 300);
        assert!(logs.room().now_or_never().is_some());
        logs.push(Stdout, b"x");
        assert_eq!(logs.size(), 100);
    }

    #[test]
    fn tail_consists_of_whole_lines() {
        let logs = Logs::new();
        logs.push(Stdout, b"one\ntwo\nthree\n");
        let tail = |lines| {
            all(
                &logs,
                &LogQuery {
                    tail: Some(lines),
                    ..LogQuery::default()
                },
            )
        };
        assert_eq!(tail(0), []);
        assert_eq!(tail(1), [text(Stdout, "three\n")]);
        assert_eq!(tail(2), [text(Stdout, "two\nthree\n")]);
        assert_eq!(tail(u64::MAX), [text(Stdout, "one\ntwo\nthree\n")]);
        logs.push(Stdout, b"half");
        assert_eq!(tail(2), [text(Stdout, "three\nhalf")]);
        logs.push(Stderr, b"other\n");
        assert_eq!(logs.last_lines(2), "half\nother");
    }

    #[tokio::test]
    async fn slow_follower_learns_what_it_missed_and_ends() {
        let logs = Logs::with_capacity(4);
        let mut follower = logs.read(&LogQuery {
            follow: true,
            ..LogQuery::default()
        });
        logs.push(Stdout, b"ab");
        assert_eq!(follower.next().await.unwrap().bytes, "ab");
        logs.push(Stdout, b"cdef");
        logs.push(Stdout, b"0123456789");
        assert_eq!(logs.size(), 4);
        let chunk = follower.next().await.unwrap();
        assert_eq!(
            (chunk.offset, chunk.missed, &chunk.bytes[..]),
            (12, 10, &b"6789"[..])
        );
        logs.close();
        assert_eq!(follower.next().await, None);
    }

    #[tokio::test]
    async fn slowest_lossless_reader_limits_the_process_until_dropped() {
        let logs = Logs::with_capacity(400);
        let follow = LogQuery {
            follow: true,
            ..LogQuery::default()
        };
        let (mut fast, slow) = (logs.read_lossless(&follow), logs.read_lossless(&follow));
        let has_room = || logs.lock().have_room();
        logs.push(Stdout, &[b'o'; 100]);
        assert!(has_room());
        logs.push(Stderr, &[b'e'; 101]);
        assert!(!has_room());
        // Output that arrives after a kill is written without waiting for room, and fits.
        logs.push(Stdout, &[b'o'; 300]);
        logs.close();
        let mut read = 0;
        while let Some(chunk) = fast.next().await {
            assert_eq!(chunk.missed, 0);
            read += chunk.bytes.len();
        }
        assert_eq!(read, 501);
        assert!(!has_room());
        logs.clear();
        assert_eq!(logs.size(), 501);
        drop(slow);
        logs.room().await;
        drop(fast);
        logs.clear();
        assert_eq!(logs.size(), 0);
    }

    #[tokio::test]
    async fn late_lossless_reader_applies_back_pressure_at_once() {
        let logs = Logs::with_capacity(40);
        logs.push(Stdout, &[b'a'; 60]);
        let mut late = logs.read_lossless(&LogQuery {
            tail: Some(0),
            follow: true,
            ..LogQuery::default()
        });
        assert!(logs.lock().have_room());
        logs.push(Stdout, &[b'b'; 11]);
        let (chunk, ()) = tokio::join!(late.next(), logs.room());
        assert_eq!(chunk.unwrap().bytes.len(), 11);
    }

    #[test]
    fn reader_without_follow_ends_at_the_present_output() {
        let logs = Logs::new();
        logs.push(Stdout, b"before");
        let mut reader = logs.read(&LogQuery::default());
        logs.push(Stdout, b"after");
        assert_eq!(
            logs.lock().take(&mut reader.cursors).unwrap().bytes,
            "before"
        );
        assert_eq!(logs.lock().take(&mut reader.cursors), None);
    }

    #[test]
    fn memory_is_bounded_however_a_process_writes() {
        let logs = Logs::with_capacity(100_000);
        for _ in 0..50_000 {
            logs.push(Stdout, b"o");
            logs.push(Stderr, b"e");
        }
        let rings = logs.lock();
        assert!(rings.stdout.switches.len() <= MAX_SWITCHES + 1);
        assert_eq!(rings.stdout.bytes.len(), 50_000);
    }
}
