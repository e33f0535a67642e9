//! Incremental UTF-8 decoder.

/// Decodes pieces of a byte stream. A character split between two pieces is held back until it is
/// complete; invalid bytes become U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Utf8Stream {
    /// Incomplete character: at most three bytes.
    held: Vec<u8>,
}

impl Utf8Stream {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let joined;
        let bytes = if self.held.is_empty() {
            bytes
        } else {
            self.held.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.held);
            joined.as_slice()
        };
        let whole = bytes.len() - unfinished(bytes);
        self.held.extend_from_slice(&bytes[whole..]);
        String::from_utf8_lossy(&bytes[..whole]).into_owned()
    }

    /// Returns the incomplete character at the end of the stream as replacement characters.
    pub(crate) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

/// Returns the number of bytes at the end that begin an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - back..];
        // Continuation bytes belong to an earlier byte.
        if tail[0] & 0b1100_0000 == 0b1000_0000 {
            continue;
        }
        return match std::str::from_utf8(tail) {
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => back,
            _ => 0,
        };
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_split_character_waits_for_its_end() {
        let mut stream = Utf8Stream::default();
        let bytes = "aé€🦀z".as_bytes();
        let pieces: Vec<String> = bytes.iter().map(|byte| stream.push(&[*byte])).collect();
        assert_eq!(pieces.concat() + &stream.finish(), "aé€🦀z");
        assert_eq!(pieces[0], "a");
        assert_eq!(pieces[1], "");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_hold_nothing_back() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push(b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b");
        assert_eq!(stream.push(b"\xf0\x9f"), "");
        assert_eq!(stream.finish(), "\u{fffd}");
        assert_eq!(stream.finish(), "");
    }

    proptest! {
        #[test]
        fn pieces_of_text_join_to_the_text(text in "\\PC{0,60}", cuts in prop::collection::vec(0usize..200, 0..8)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut stream = Utf8Stream::default();
            let mut joined = String::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                joined += &stream.push(&bytes[from..cut]);
                from = cut;
            }
            joined += &stream.finish();
            prop_assert_eq!(joined, text);
        }

        #[test]
        fn arbitrary_bytes_never_hold_more_than_a_character(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut stream = Utf8Stream::default();
            for byte in &bytes {
                stream.push(&[*byte]);
                prop_assert!(stream.held.len() <= 3);
            }
        }
    }
}
