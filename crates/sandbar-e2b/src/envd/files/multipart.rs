//! Streaming parser of `multipart/form-data`. It buffers no content except what may be the start of
//! a delimiter.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memmem;

use super::disposition::Parameters;

/// Limit of the headers of one part.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Limit of RFC 2046.
const MAX_BOUNDARY_BYTES: usize = 70;

/// Next event of the parser.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A part starts.
    Part(PartHead),
    Data(Bytes),
    /// The part is complete.
    End,
}

/// Parameters in the head of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartHead {
    pub(crate) name: Option<String>,
    pub(crate) filename: Option<String>,
}

/// Parser of a form that arrives in chunks.
#[derive(Debug)]
pub(crate) struct Multipart {
    /// Boundary with the preceding line break, which is part of the delimiter.
    delimiter: Vec<u8>,
    arrived: BytesMut,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first boundary.
    Preamble,
    /// After a boundary: the rest of its line, or `--`.
    Boundary,
    Head,
    /// Before the empty line after a head. An empty part may end right here.
    Start,
    Body,
    /// After the last boundary.
    Over,
}

impl Multipart {
    /// Creates a parser for a `Content-Type`.
    pub(crate) fn new(content_type: &[u8]) -> Result<Self, &'static str> {
        let boundary =
            Parameters::read(content_type).and_then(|parameters| parameters.get("boundary"));
        let boundary = boundary
            .filter(|boundary| !boundary.is_empty() && boundary.len() <= MAX_BOUNDARY_BYTES);
        let boundary = boundary.ok_or("no multipart boundary param in Content-Type")?;
        // A virtual line break before the first byte: a form may start with its first boundary.
        let arrived = BytesMut::from(&b"\r\n"[..]);
        Ok(Self {
            delimiter: format!("\r\n--{boundary}").into_bytes(),
            arrived,
            state: State::Preamble,
        })
    }

    /// Adds input. Call [`next`](Self::next) until it returns `None` before adding more.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.state != State::Over {
            self.arrived.extend_from_slice(bytes);
        }
    }

    /// Returns the next event; `None` if more input is needed.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, &'static str> {
        loop {
            match self.state {
                State::Preamble => match self.find_delimiter() {
                    Found::At(index) => {
                        self.arrived.advance(index + self.delimiter.len());
                        self.state = State::Boundary;
                    }
                    Found::NotBefore(index) => {
                        self.arrived.advance(index);
                        return Ok(None);
                    }
                },
                State::Boundary => {
                    if self.arrived.starts_with(b"--") {
                        self.arrived.clear();
                        self.state = State::Over;
                        continue;
                    }
                    let blank = self
                        .arrived
                        .iter()
                        .take_while(|byte| matches!(byte, b' ' | b'\t'))
                        .count();
                    if blank > MAX_HEAD_BYTES {
                        return Err("boundary line too long");
                    }
                    match self.arrived.get(blank..blank + 2) {
                        Some(b"\r\n") => {
                            self.arrived.advance(blank + 2);
                            self.state = State::Head;
                        }
                        Some(_) => return Err("malformed boundary line"),
                        None => return Ok(None),
                    }
                }
                State::Head => return self.head(),
                State::Start => match self.find_delimiter() {
                    Found::At(0) => self.state = State::Body,
                    Found::NotBefore(0) => return Ok(None),
                    Found::At(_) | Found::NotBefore(_) => {
                        self.arrived.advance(2);
                        self.state = State::Body;
                    }
                },
                State::Body => {
                    let (data, is_end) = match self.find_delimiter() {
                        Found::At(index) => (index, true),
                        Found::NotBefore(index) => (index, false),
                    };
                    if data > 0 {
                        return Ok(Some(Piece::Data(self.arrived.split_to(data).freeze())));
                    }
                    if !is_end {
                        return Ok(None);
                    }
                    self.arrived.advance(self.delimiter.len());
                    self.state = State::Boundary;
                    return Ok(Some(Piece::End));
                }
                State::Over => return Ok(None),
            }
        }
    }

    /// Returns whether the end of the form was parsed.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    fn head(&mut self) -> Result<Option<Piece>, &'static str> {
        let end = if self.arrived.starts_with(b"\r\n") {
            Some(0)
        } else {
            memmem::find(&self.arrived, b"\r\n\r\n").map(|index| index + 2)
        };
        let Some(end) = end.filter(|end| *end <= MAX_HEAD_BYTES) else {
            // The terminating line break has two bytes more.
            let is_too_long = self.arrived.len() > MAX_HEAD_BYTES + 2;
            return if is_too_long {
                Err("header of a part is too long")
            } else {
                Ok(None)
            };
        };
        let lines = self.arrived.split_to(end);
        let head = part_head(&lines)?;
        self.state = State::Start;
        Ok(Some(Piece::Part(head)))
    }

    /// Returns the position of the next delimiter, or of a suffix that may become one.
    fn find_delimiter(&self) -> Found {
        let mut from = 0;
        while let Some(offset) = memmem::find(&self.arrived[from..], &self.delimiter) {
            let index = from + offset;
            let after = index + self.delimiter.len();
            match (self.arrived.get(after), self.arrived.get(after + 1)) {
                // Two more bytes are needed to decide.
                (None, _) | (Some(b'-' | b'\r'), None) => return Found::NotBefore(index),
                (Some(b' ' | b'\t'), _) | (Some(b'\r'), Some(b'\n')) | (Some(b'-'), Some(b'-')) => {
                    return Found::At(index);
                }
                // Another boundary that has ours as a prefix: content.
                _ => from = index + 1,
            }
        }
        let longest = self.arrived.len().min(self.delimiter.len() - 1);
        let tail = (1..=longest).rev().find(|length| {
            let start = self.arrived.len() - length;
            start >= from && self.delimiter.starts_with(&self.arrived[start..])
        });
        Found::NotBefore(self.arrived.len() - tail.unwrap_or(0))
    }
}

enum Found {
    At(usize),
    NotBefore(usize),
}

fn part_head(lines: &[u8]) -> Result<PartHead, &'static str> {
    let mut head = PartHead::default();
    for line in lines.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err("malformed header of a part");
        };
        if !line[..colon]
            .trim_ascii()
            .eq_ignore_ascii_case(b"content-disposition")
        {
            continue;
        }
        let parameters = Parameters::read(&line[colon + 1..])
            .ok_or("malformed Content-Disposition of a part")?;
        if parameters.value == "form-data" {
            head = PartHead {
                name: parameters.get("name"),
                filename: parameters.get("filename"),
            };
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, file name and content.
    type Part = (Option<String>, Option<String>, Vec<u8>);

    /// Returns names, file names and contents of a form that arrives in chunks of `size`.
    fn parse(form: &[u8], boundary: &str, size: usize) -> Result<Vec<Part>, String> {
        let mut multipart =
            Multipart::new(format!("multipart/form-data; boundary={boundary}").as_bytes())?;
        let mut parts = Vec::new();
        let mut current: Option<Part> = None;
        for piece in form.chunks(size) {
            multipart.push(piece);
            while let Some(piece) = multipart.next()? {
                match piece {
                    Piece::Part(head) => current = Some((head.name, head.filename, Vec::new())),
                    Piece::Data(data) => current.as_mut().unwrap().2.extend_from_slice(&data),
                    Piece::End => parts.push(current.take().unwrap()),
                }
            }
            assert!(multipart.arrived.len() <= size + MAX_HEAD_BYTES + multipart.delimiter.len());
        }
        if multipart.is_over() {
            Ok(parts)
        } else {
            Err("unexpected EOF".into())
        }
    }

    fn part(name: &str, filename: &str, content: &[u8]) -> Part {
        (Some(name.into()), Some(filename.into()), content.to_vec())
    }

    #[test]
    fn parts_are_parsed_wherever_the_input_is_cut() {
        let content = b"one\r\n--frontie\r\n--frontierx\r\n--\r\n-\r";
        let mut form = b"to be ignored\r\n--frontier \t\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a/b c\"\r\nContent-Type: text/plain\r\n\r\n".to_vec();
        form.extend_from_slice(content);
        form.extend_from_slice(
            b"\r\n--frontier\r\ncontent-disposition:form-data;name=file;filename=empty\r\n\r\n\r\n--frontier\r\n",
        );
        form.extend_from_slice(
            b"Content-Disposition: form-data; name=\"file\"; filename=\"none\"\r\n\r\n--frontier--\r\nafter",
        );
        let expected = vec![
            part("file", "a/b c", content),
            part("file", "empty", b""),
            part("file", "none", b""),
        ];
        for size in 1..form.len() {
            assert_eq!(
                parse(&form, "frontier", size).unwrap(),
                expected,
                "in pieces of {size}"
            );
        }
    }

    #[test]
    fn part_without_headers_has_no_name() {
        let form = b"--b\r\n\r\ncontent\r\n--b--";
        assert_eq!(
            parse(form, "b", 3).unwrap(),
            [(None, None, b"content".to_vec())]
        );
    }

    #[test]
    fn malformed_form_is_refused() {
        let long = format!("--b\r\nX: {}", "y".repeat(MAX_HEAD_BYTES));
        for form in [
            &b"--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nhalf"[..],
            b"--b\r\nno colon\r\n\r\nx\r\n--b--",
            b"--b\r\nContent-Disposition: form-data; name=\"file\r\n\r\nx\r\n--b--",
            b"nothing at all",
            b"",
            long.as_bytes(),
        ] {
            assert!(
                parse(form, "b", 7).is_err(),
                "{}",
                String::from_utf8_lossy(form)
            );
        }
        for content_type in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary",
        ] {
            assert!(
                Multipart::new(content_type.as_bytes()).is_err(),
                "{content_type}"
            );
        }
    }
}
