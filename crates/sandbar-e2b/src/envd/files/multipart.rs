//! Forms with files in them, as they come in: nothing of a file is kept but what may be the beginning of its end.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memmem;

use super::disposition::Parameters;

/// Bytes of the headers of one part.
const LONGEST_HEAD: usize = 16 << 10;

/// A boundary has at most so many characters.
const LONGEST_BOUNDARY: usize = 70;

/// What comes next in a form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A part begins.
    Part(PartHead),
    Data(Bytes),
    /// The part is whole.
    End,
}

/// What a part says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartHead {
    pub(crate) name: Option<String>,
    pub(crate) filename: Option<String>,
}

/// A form that arrives piece by piece.
#[derive(Debug)]
pub(crate) struct Multipart {
    /// The line break before a boundary belongs to it.
    delimiter: Vec<u8>,
    arrived: BytesMut,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first boundary.
    Preamble,
    /// Behind a boundary: the rest of its line, or its end.
    Boundary,
    Head,
    /// Before the empty line behind a head. A part may end right there.
    Start,
    Body,
    /// Behind the last boundary.
    Over,
}

impl Multipart {
    /// A form of this `Content-Type`; the error is what is wrong with it.
    pub(crate) fn new(content_type: &[u8]) -> Result<Self, &'static str> {
        let boundary = Parameters::read(content_type).and_then(|parameters| parameters.get("boundary"));
        let boundary = boundary.filter(|boundary| !boundary.is_empty() && boundary.len() <= LONGEST_BOUNDARY);
        let boundary = boundary.ok_or("no multipart boundary param in Content-Type")?;
        // As if a line had ended before the first byte: a form may begin with its first boundary.
        let arrived = BytesMut::from(&b"\r\n"[..]);
        Ok(Self { delimiter: format!("\r\n--{boundary}").into_bytes(), arrived, state: State::Preamble })
    }

    /// Adds what has arrived. Everything there is by now is taken with [`next`](Self::next) before more is added.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.state != State::Over {
            self.arrived.extend_from_slice(bytes);
        }
    }

    /// The next piece; `None` when more has to arrive first.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, &'static str> {
        loop {
            match self.state {
                State::Preamble => match self.find_delimiter() {
                    Found::At(place) => {
                        self.arrived.advance(place + self.delimiter.len());
                        self.state = State::Boundary;
                    }
                    Found::NotBefore(place) => {
                        self.arrived.advance(place);
                        return Ok(None);
                    }
                },
                State::Boundary => {
                    if self.arrived.starts_with(b"--") {
                        self.arrived.clear();
                        self.state = State::Over;
                        continue;
                    }
                    let blank = self.arrived.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                    if blank > LONGEST_HEAD {
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
                        Found::At(place) => (place, true),
                        Found::NotBefore(place) => (place, false),
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

    /// Whether the end of the form has arrived.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    fn head(&mut self) -> Result<Option<Piece>, &'static str> {
        let end = if self.arrived.starts_with(b"\r\n") {
            Some(0)
        } else {
            memmem::find(&self.arrived, b"\r\n\r\n").map(|place| place + 2)
        };
        let Some(end) = end.filter(|end| *end <= LONGEST_HEAD) else {
            // Its end has two bytes more.
            let is_too_long = self.arrived.len() > LONGEST_HEAD + 2;
            return if is_too_long { Err("header of a part is too long") } else { Ok(None) };
        };
        let lines = self.arrived.split_to(end);
        let head = part_head(&lines)?;
        self.state = State::Start;
        Ok(Some(Piece::Part(head)))
    }

    /// Where the next delimiter is, or how much there is before anything that may become one.
    fn find_delimiter(&self) -> Found {
        let mut from = 0;
        while let Some(place) = memmem::find(&self.arrived[from..], &self.delimiter) {
            let place = from + place;
            let after = place + self.delimiter.len();
            match (self.arrived.get(after), self.arrived.get(after + 1)) {
                // It takes two more bytes to know.
                (None, _) | (Some(b'-' | b'\r'), None) => return Found::NotBefore(place),
                (Some(b' ' | b'\t'), _) | (Some(b'\r'), Some(b'\n')) | (Some(b'-'), Some(b'-')) => {
                    return Found::At(place);
                }
                // A longer word, and so a part of the content.
                _ => from = place + 1,
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
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Err("malformed header of a part") };
        if !line[..colon].trim_ascii().eq_ignore_ascii_case(b"content-disposition") {
            continue;
        }
        let parameters = Parameters::read(&line[colon + 1..]).ok_or("malformed Content-Disposition of a part")?;
        if parameters.value == "form-data" {
            head = PartHead { name: parameters.get("name"), filename: parameters.get("filename") };
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, file name and content.
    type Part = (Option<String>, Option<String>, Vec<u8>);

    /// Names, file names and contents of a form that arrives in pieces of `size`.
    fn parse(form: &[u8], boundary: &str, size: usize) -> Result<Vec<Part>, String> {
        let mut multipart = Multipart::new(format!("multipart/form-data; boundary={boundary}").as_bytes())?;
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
            assert!(multipart.arrived.len() <= size + LONGEST_HEAD + multipart.delimiter.len());
        }
        if multipart.is_over() { Ok(parts) } else { Err("unexpected EOF".into()) }
    }

    fn part(name: &str, filename: &str, content: &[u8]) -> Part {
        (Some(name.into()), Some(filename.into()), content.to_vec())
    }

    #[test]
    fn files_are_found_however_they_arrive() {
        let content = b"one\r\n--frontie\r\n--frontierx\r\n--\r\n-\r";
        let mut form = b"to be ignored\r\n--frontier \t\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a/b c\"\r\nContent-Type: text/plain\r\n\r\n".to_vec();
        form.extend_from_slice(content);
        form.extend_from_slice(
            b"\r\n--frontier\r\ncontent-disposition:form-data;name=file;filename=empty\r\n\r\n\r\n--frontier\r\n",
        );
        form.extend_from_slice(
            b"Content-Disposition: form-data; name=\"file\"; filename=\"none\"\r\n\r\n--frontier--\r\nafter",
        );
        let expected = vec![part("file", "a/b c", content), part("file", "empty", b""), part("file", "none", b"")];
        for size in 1..form.len() {
            assert_eq!(parse(&form, "frontier", size).unwrap(), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_part_without_headers_has_no_name() {
        let form = b"--b\r\n\r\ncontent\r\n--b--";
        assert_eq!(parse(form, "b", 3).unwrap(), [(None, None, b"content".to_vec())]);
    }

    #[test]
    fn broken_forms_are_refused() {
        let long = format!("--b\r\nX: {}", "y".repeat(LONGEST_HEAD));
        for form in [
            &b"--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nhalf"[..],
            b"--b\r\nno colon\r\n\r\nx\r\n--b--",
            b"--b\r\nContent-Disposition: form-data; name=\"file\r\n\r\nx\r\n--b--",
            b"nothing at all",
            b"",
            long.as_bytes(),
        ] {
            assert!(parse(form, "b", 7).is_err(), "{}", String::from_utf8_lossy(form));
        }
        for content_type in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary"] {
            assert!(Multipart::new(content_type.as_bytes()).is_err(), "{content_type}");
        }
    }
}
