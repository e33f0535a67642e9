//! What a process has written: the end of each stream is kept, for everybody who wants to read or follow it.
//!
//! Invariant: a close reader misses nothing that is written while it is there. What it has not read yet is a part of what
//! is kept, with room to spare for all that may still be on its way after the process was killed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use sandbar_core::{LogChunk, LogQuery, LogStream};
use tokio::sync::{Notify, watch};

/// So much is kept of each stream.
const KEPT: usize = 1 << 20;

/// The most that is handed out at once.
const CHUNK: u64 = 64 << 10;

/// So many changes from one stream to the other are remembered; beyond that the oldest output loses its order.
const MOST_TURNS: usize = 4096;

/// A process waits when a close reader has so many times less than what is kept before it.
const SPARE: u64 = 4;

/// The logs of one process. Writing never waits for readers; who writes asks for [room](Logs::room) first.
#[derive(Debug)]
pub(crate) struct Logs {
    rings: Mutex<Rings>,
    changed: watch::Sender<()>,
    /// A close reader has read something, or went away.
    read: Notify,
}

#[derive(Debug)]
struct Rings {
    kept: usize,
    stdout: Ring,
    stderr: Ring,
    /// The stream that was written last, and how often that changed.
    last: Option<LogStream>,
    turns: u64,
    /// Nothing will be written any more.
    closed: bool,
    close_readers: Vec<CloseReader>,
    /// Close readers there ever were.
    numbered: u64,
}

/// How far somebody is whom the process waits for.
#[derive(Debug)]
struct CloseReader {
    number: u64,
    stdout: u64,
    stderr: u64,
}

/// The end of one stream.
#[derive(Debug, Default)]
struct Ring {
    bytes: VecDeque<u8>,
    /// Bytes that were written, ever.
    end: u64,
    /// Where the process turned to this stream, oldest first.
    turns: VecDeque<Turn>,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    offset: u64,
    number: u64,
}

impl Ring {
    fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    fn push(&mut self, bytes: &[u8], kept: usize) {
        self.end += bytes.len() as u64;
        let fits = &bytes[bytes.len().saturating_sub(kept)..];
        let surplus = (self.bytes.len() + fits.len()).saturating_sub(kept);
        self.bytes.drain(..surplus);
        self.bytes.extend(fits);
        let start = self.start();
        while self.turns.get(1).is_some_and(|next| next.offset <= start) {
            self.turns.pop_front();
        }
        if self.turns.len() > MOST_TURNS {
            self.turns.remove(1);
        }
    }

    /// The turn that wrote the byte at `offset`, and where it ended.
    fn turn_at(&self, offset: u64) -> (u64, u64) {
        let after = self.turns.partition_point(|turn| turn.offset <= offset);
        let number = after.checked_sub(1).map_or(0, |index| self.turns[index].number);
        (number, self.turns.get(after).map_or(self.end, |next| next.offset))
    }

    /// Where the last `lines` lines begin.
    fn tail(&self, lines: u64) -> u64 {
        let Some(more) = usize::try_from(lines).ok().filter(|lines| *lines > 0) else {
            return if lines == 0 { self.end } else { self.start() };
        };
        let ends_with_newline = self.bytes.back() == Some(&b'\n');
        let newlines = self.bytes.iter().enumerate().rev().skip(usize::from(ends_with_newline));
        let before = newlines.filter(|(_, byte)| **byte == b'\n').nth(more - 1);
        before.map_or(self.start(), |(index, _)| self.start() + index as u64 + 1)
    }

    fn copy(&self, from: u64, until: u64) -> Bytes {
        let index = |offset: u64| usize::try_from(offset - self.start()).unwrap_or(usize::MAX);
        let (from, until) = (index(from), index(until));
        let (front, back) = self.bytes.as_slices();
        let mut copy = Vec::with_capacity(until - from);
        copy.extend_from_slice(&front[from.min(front.len())..until.min(front.len())]);
        copy.extend_from_slice(&back[from.saturating_sub(front.len())..until.saturating_sub(front.len())]);
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

    /// Whether every close reader is near enough to the end.
    fn have_room(&self) -> bool {
        let most = self.kept as u64 / SPARE;
        self.close_readers.iter().all(|reader| {
            self.stdout.end.saturating_sub(reader.stdout) <= most
                && self.stderr.end.saturating_sub(reader.stderr) <= most
        })
    }

    /// A close reader is where its cursors are.
    fn note(&mut self, number: u64, cursors: &[Cursor]) {
        let Some(reader) = self.close_readers.iter_mut().find(|reader| reader.number == number) else { return };
        for cursor in cursors {
            match cursor.stream {
                LogStream::Stdout => reader.stdout = cursor.at,
                LogStream::Stderr => reader.stderr = cursor.at,
            }
        }
    }

    /// The next piece for a reader, in the order of writing.
    fn take(&self, cursors: &mut [Cursor]) -> Option<LogChunk> {
        let next = cursors.iter_mut().filter_map(|cursor| {
            let ring = self.of(cursor.stream);
            let from = cursor.at.max(ring.start());
            let (turn, turn_end) = ring.turn_at(from);
            let until = turn_end.min(cursor.until.unwrap_or(ring.end)).min(from + CHUNK);
            (from < until).then_some((turn, from, until, cursor))
        });
        let (_, from, until, cursor) = next.min_by_key(|(turn, ..)| *turn)?;
        let missed = from - cursor.at;
        cursor.at = until;
        let bytes = self.of(cursor.stream).copy(from, until);
        Some(LogChunk { stream: cursor.stream, offset: from, missed, bytes })
    }
}

impl Logs {
    pub(crate) fn new() -> Arc<Self> {
        Self::keeping(KEPT)
    }

    fn keeping(kept: usize) -> Arc<Self> {
        let (stdout, stderr) = Default::default();
        let close_readers = Vec::new();
        let rings = Rings { kept, stdout, stderr, last: None, turns: 0, closed: false, close_readers, numbered: 0 };
        Arc::new(Self { rings: Mutex::new(rings), changed: watch::Sender::new(()), read: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, stream: LogStream, bytes: &[u8]) {
        let mut rings = self.lock();
        if rings.last.replace(stream) != Some(stream) {
            rings.turns += 1;
            let number = rings.turns;
            let ring = rings.of_mut(stream);
            ring.turns.push_back(Turn { offset: ring.end, number });
        }
        let kept = rings.kept;
        rings.of_mut(stream).push(bytes, kept);
        drop(rings);
        self.changed.send_replace(());
    }

    /// Waits until no close reader is far behind. One task waits at a time: the one that writes.
    pub(super) async fn room(&self) {
        while !self.lock().have_room() {
            self.read.notified().await;
        }
    }

    /// Nothing will be written any more: followers come to their end.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.send_replace(());
    }

    /// Gives the memory back, unless a close reader is still at it. Others are told what they missed by the next offset.
    pub(super) fn clear(&self) {
        let mut rings = self.lock();
        if !rings.close_readers.is_empty() {
            return;
        }
        rings.stdout.bytes = VecDeque::new();
        rings.stderr.bytes = VecDeque::new();
    }

    /// Bytes that are held now.
    pub(super) fn size(&self) -> usize {
        let rings = self.lock();
        rings.stdout.bytes.len() + rings.stderr.bytes.len()
    }

    pub(crate) fn read(self: &Arc<Self>, query: &LogQuery) -> ProcessLogs {
        let changed = self.changed.subscribe();
        let rings = self.lock();
        let wanted = [LogStream::Stdout, LogStream::Stderr];
        let cursors = wanted.into_iter().filter(|stream| query.stream.is_none_or(|only| only == *stream));
        let cursors = cursors.map(|stream| {
            let ring = rings.of(stream);
            let at = query.tail.map_or(0, |lines| ring.tail(lines));
            Cursor { stream, at, until: (!query.follow).then_some(ring.end) }
        });
        let cursors = cursors.collect();
        drop(rings);
        ProcessLogs { logs: Arc::clone(self), changed, cursors, number: None }
    }

    /// As [`read`](Self::read), for somebody whom the process waits for from now on.
    pub(crate) fn read_closely(self: &Arc<Self>, query: &LogQuery) -> ProcessLogs {
        let mut reader = self.read(query);
        let mut rings = self.lock();
        rings.numbered += 1;
        let number = rings.numbered;
        let (stdout, stderr) = (rings.stdout.end, rings.stderr.end);
        rings.close_readers.push(CloseReader { number, stdout, stderr });
        rings.note(number, &reader.cursors);
        drop(rings);
        reader.number = Some(number);
        reader
    }

    /// The last lines of both streams, for people.
    pub(crate) fn last_lines(self: &Arc<Self>, lines: usize) -> String {
        let mut tail = self.read(&LogQuery { tail: Some(lines as u64), ..LogQuery::default() });
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

/// How far one reader is in one stream.
#[derive(Debug)]
struct Cursor {
    stream: LogStream,
    at: u64,
    /// `None`: it follows.
    until: Option<u64>,
}

/// The logs of a process, seen by one reader. One that is slow misses something, is told how much, and holds nobody up;
/// a close one misses nothing, and the process waits for it.
#[derive(Debug)]
pub struct ProcessLogs {
    logs: Arc<Logs>,
    changed: watch::Receiver<()>,
    cursors: Vec<Cursor>,
    /// That of a close reader.
    number: Option<u64>,
}

impl Drop for ProcessLogs {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.logs.lock().close_readers.retain(|reader| reader.number != number);
            self.logs.read.notify_one();
        }
    }
}

impl ProcessLogs {
    /// The next piece; `None` at the end, which for a follower is when the process has exited. Dropping the returned
    /// future loses nothing.
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
            // It fails when the sender is gone, and we hold the logs.
            self.changed.changed().await.ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use LogStream::{Stderr, Stdout};

    use super::*;

    fn all(logs: &Arc<Logs>, query: &LogQuery) -> Vec<(LogStream, String)> {
        let mut reader = logs.read(query);
        let rings = logs.lock();
        let chunks = std::iter::from_fn(|| rings.take(&mut reader.cursors));
        chunks.map(|chunk| (chunk.stream, String::from_utf8(chunk.bytes.into()).unwrap())).collect()
    }

    fn text(stream: LogStream, text: &str) -> (LogStream, String) {
        (stream, text.to_owned())
    }

    #[test]
    fn both_streams_come_in_the_order_they_were_written() {
        let logs = Logs::new();
        for (stream, bytes) in [(Stdout, "a"), (Stdout, "b"), (Stderr, "c"), (Stdout, "d")] {
            logs.push(stream, bytes.as_bytes());
        }
        assert_eq!(all(&logs, &LogQuery::default()), [text(Stdout, "ab"), text(Stderr, "c"), text(Stdout, "d")]);
        let only = LogQuery { stream: Some(Stderr), ..LogQuery::default() };
        assert_eq!(all(&logs, &only), [text(Stderr, "c")]);
    }

    #[test]
    fn a_tail_is_whole_lines() {
        let logs = Logs::new();
        logs.push(Stdout, b"one\ntwo\nthree\n");
        let tail = |lines| all(&logs, &LogQuery { tail: Some(lines), ..LogQuery::default() });
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
    async fn a_slow_follower_is_told_what_it_missed_and_comes_to_an_end() {
        let logs = Logs::keeping(4);
        let mut follower = logs.read(&LogQuery { follow: true, ..LogQuery::default() });
        logs.push(Stdout, b"ab");
        assert_eq!(follower.next().await.unwrap().bytes, "ab");
        logs.push(Stdout, b"cdef");
        logs.push(Stdout, b"0123456789");
        assert_eq!(logs.size(), 4);
        let chunk = follower.next().await.unwrap();
        assert_eq!((chunk.offset, chunk.missed, &chunk.bytes[..]), (12, 10, &b"6789"[..]));
        logs.close();
        assert_eq!(follower.next().await, None);
    }

    #[tokio::test]
    async fn a_process_waits_for_its_slowest_close_reader_and_no_longer_than_it_is_there() {
        let logs = Logs::keeping(400);
        let follow = LogQuery { follow: true, ..LogQuery::default() };
        let (mut fast, slow) = (logs.read_closely(&follow), logs.read_closely(&follow));
        let has_room = || logs.lock().have_room();
        logs.push(Stdout, &[b'o'; 100]);
        assert!(has_room());
        logs.push(Stderr, &[b'e'; 101]);
        assert!(!has_room());
        // What is on its way after a kill is written without asking, and fits.
        logs.push(Stdout, &[b'o'; 300]);
        logs.close();
        let mut told = 0;
        while let Some(chunk) = fast.next().await {
            assert_eq!(chunk.missed, 0);
            told += chunk.bytes.len();
        }
        assert_eq!(told, 501);
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
    async fn who_comes_closer_later_is_waited_for_from_then_on() {
        let logs = Logs::keeping(40);
        logs.push(Stdout, &[b'a'; 60]);
        let mut late = logs.read_closely(&LogQuery { tail: Some(0), follow: true, ..LogQuery::default() });
        assert!(logs.lock().have_room());
        logs.push(Stdout, &[b'b'; 11]);
        let (chunk, ()) = tokio::join!(late.next(), logs.room());
        assert_eq!(chunk.unwrap().bytes.len(), 11);
    }

    #[test]
    fn what_one_asks_for_now_ends_now() {
        let logs = Logs::new();
        logs.push(Stdout, b"before");
        let mut reader = logs.read(&LogQuery::default());
        logs.push(Stdout, b"after");
        assert_eq!(logs.lock().take(&mut reader.cursors).unwrap().bytes, "before");
        assert_eq!(logs.lock().take(&mut reader.cursors), None);
    }

    #[test]
    fn memory_is_bounded_however_a_process_writes() {
        let logs = Logs::keeping(100_000);
        for _ in 0..50_000 {
            logs.push(Stdout, b"o");
            logs.push(Stderr, b"e");
        }
        let rings = logs.lock();
        assert!(rings.stdout.turns.len() <= MOST_TURNS + 1);
        assert_eq!(rings.stdout.bytes.len(), 50_000);
    }
}
