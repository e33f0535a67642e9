//! Key presses, decoded from terminal input.

/// A key, as terminals send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Character(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl with a letter.
    Control(char),
}

/// Decodes the keys of one read. A single escape byte is the Escape key: sequences arrive in one
/// read.
pub(crate) fn keys(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = &*text;
    let mut keys = Vec::new();
    while let Some(character) = rest.chars().next() {
        if let Some(sequence) = rest
            .strip_prefix("\x1b[")
            .or_else(|| rest.strip_prefix("\x1bO"))
        {
            let end = sequence.find(|character: char| ('@'..='~').contains(&character));
            let Some(end) = end else { return keys };
            keys.extend(named(&sequence[..=end]));
            rest = &sequence[end + 1..];
            continue;
        }
        keys.extend(match character {
            '\r' | '\n' => Some(Key::Enter),
            '\x1b' => Some(Key::Escape),
            '\x7f' | '\x08' => Some(Key::Backspace),
            '\x01'..='\x1a' => char::from_u32(u32::from(character) + 0x60).map(Key::Control),
            character if character.is_control() => None,
            character => Some(Key::Character(character)),
        });
        rest = &rest[character.len_utf8()..];
    }
    keys
}

fn named(sequence: &str) -> Option<Key> {
    match sequence {
        "A" => Some(Key::Up),
        "B" => Some(Key::Down),
        "5~" => Some(Key::PageUp),
        "6~" => Some(Key::PageDown),
        "H" | "1~" | "7~" => Some(Key::Home),
        "F" | "4~" | "8~" => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_read_are_separated() {
        use Key::{Backspace, Character, Control, Down, End, Enter, Escape, PageDown, Up};
        for (bytes, pressed) in [
            (&b"q"[..], vec![Character('q')]),
            (b"\x1b", vec![Escape]),
            (b"\x1b[A\x1bOBx", vec![Up, Down, Character('x')]),
            (b"\x1b[6~\x1b[F\r", vec![PageDown, End, Enter]),
            (b"\x03\x1a\x7f", vec![Control('c'), Control('z'), Backspace]),
            ("ö".as_bytes(), vec![Character('ö')]),
            (b"\x1b[1;5C", vec![]),
            (b"\x1b[", vec![]),
        ] {
            assert_eq!(keys(bytes), pressed, "{bytes:?}");
        }
    }
}
