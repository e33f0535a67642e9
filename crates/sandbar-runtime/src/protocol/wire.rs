//! Encoding of numbers and byte strings in a frame. Both ends are the same binary, so the format
//! has no version.

use std::{
    ffi::{CStr, CString},
    io,
};

/// Builds the body of a frame.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn number(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn signed(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn text(&mut self, value: &CStr) {
        self.number(value.count_bytes() as u64);
        self.bytes.extend_from_slice(value.to_bytes());
    }

    pub(crate) fn texts(&mut self, values: &[CString]) {
        self.number(values.len() as u64);
        for value in values {
            self.text(value);
        }
    }

    /// Writes a value that may be absent.
    pub(crate) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Parses the body of a frame.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> io::Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn number(&mut self) -> io::Result<u64> {
        self.take(8)?
            .try_into()
            .map(u64::from_le_bytes)
            .map_err(|_| malformed())
    }

    pub(crate) fn signed(&mut self) -> io::Result<i32> {
        self.take(4)?
            .try_into()
            .map(i32::from_le_bytes)
            .map_err(|_| malformed())
    }

    pub(crate) fn text(&mut self) -> io::Result<CString> {
        let length = usize::try_from(self.number()?).map_err(|_| malformed())?;
        CString::new(self.take(length)?).map_err(|_| malformed())
    }

    pub(crate) fn texts(&mut self) -> io::Result<Vec<CString>> {
        let count = self.number()?;
        (0..count).map(|_| self.text()).collect()
    }

    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        if self.byte()? == 0 {
            Ok(None)
        } else {
            read(self).map(Some)
        }
    }
}

pub(crate) fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed frame")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back_and_truncated_frame_fails() {
        let mut writer = Writer::default();
        writer.byte(7);
        writer.number(u64::MAX);
        writer.signed(-3);
        writer.texts(&[c"".to_owned(), c"b c".to_owned()]);
        writer.optional(Some(5), Writer::number);
        writer.optional(None, Writer::number);
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!(
            (
                reader.byte().unwrap(),
                reader.number().unwrap(),
                reader.signed().unwrap()
            ),
            (7, u64::MAX, -3)
        );
        assert_eq!(reader.texts().unwrap(), [c"".to_owned(), c"b c".to_owned()]);
        assert_eq!(reader.optional(Reader::number).unwrap(), Some(5));
        assert_eq!(reader.optional(Reader::number).unwrap(), None);
        assert!(reader.byte().is_err());
        assert!(Reader::new(&bytes[..20]).texts().is_err());
    }
}
