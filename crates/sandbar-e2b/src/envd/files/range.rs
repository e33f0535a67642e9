//! Parts of a file.

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Whole,
    Part {
        start: u64,
        length: u64,
    },
    /// Nothing of it is there.
    Nothing,
}

/// Reads `Range`. Several parts at once are answered with the whole file, as a server may.
pub(crate) fn wanted(range: Option<&str>, size: u64) -> Wanted {
    let Some(range) = range else { return Wanted::Whole };
    let Some(parts) = range.trim().strip_prefix("bytes=") else { return Wanted::Nothing };
    // Some ask for a part of whatever it is, to get less.
    if size == 0 {
        return Wanted::Whole;
    }
    let mut parts = parts.split(',').map(str::trim).filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some(part), None) => single(part, size).unwrap_or(Wanted::Nothing),
        (Some(_), Some(_)) => Wanted::Whole,
        (None, _) => Wanted::Nothing,
    }
}

fn single(part: &str, size: u64) -> Option<Wanted> {
    let (first, last) = part.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let (start, end) = if first.is_empty() {
        // The last so many bytes.
        (size.saturating_sub(number(last)?), size)
    } else if last.is_empty() {
        (number(first)?, size)
    } else {
        (number(first)?, number(last)?.saturating_add(1).min(size))
    };
    (start < end).then(|| Wanted::Part { start, length: end - start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_is_there_of_it() {
        let part = |start, length| Wanted::Part { start, length };
        for (range, size, expected) in [
            ("bytes=0-9", 100, part(0, 10)),
            ("bytes=90-", 100, part(90, 10)),
            ("bytes=90-1000", 100, part(90, 10)),
            ("bytes=-10", 100, part(90, 10)),
            ("bytes=-1000", 100, part(0, 100)),
            ("bytes= 5 - 5 ", 100, part(5, 1)),
            ("bytes=0-1,4-5", 100, Wanted::Whole),
            ("bytes=0-9", 0, Wanted::Whole),
            ("bytes=100-", 100, Wanted::Nothing),
            ("bytes=9-3", 100, Wanted::Nothing),
            ("bytes=-0", 100, Wanted::Nothing),
            ("bytes=-", 100, Wanted::Nothing),
            ("bytes=+1-2", 100, Wanted::Nothing),
            ("bytes=", 100, Wanted::Nothing),
            ("lines=1-2", 100, Wanted::Nothing),
            ("bytes=0-18446744073709551615", 100, part(0, 100)),
            ("bytes=99999999999999999999-", 100, Wanted::Nothing),
        ] {
            assert_eq!(wanted(Some(range), size), expected, "{range}");
        }
        assert_eq!(wanted(None, 5), Wanted::Whole);
    }
}
