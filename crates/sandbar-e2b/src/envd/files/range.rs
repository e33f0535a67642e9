//! `Range` headers.

/// Requested part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteRange {
    Whole,
    Part {
        start: u64,
        length: u64,
    },
    /// The range does not overlap the file.
    Unsatisfiable,
}

/// Parses `Range`. A request for several ranges gets the whole file, which RFC 9110 permits.
pub(crate) fn requested_range(range: Option<&str>, size: u64) -> ByteRange {
    let Some(range) = range else {
        return ByteRange::Whole;
    };
    let Some(parts) = range.trim().strip_prefix("bytes=") else {
        return ByteRange::Unsatisfiable;
    };
    // Some clients send a range to limit the size, also for empty files.
    if size == 0 {
        return ByteRange::Whole;
    }
    let mut parts = parts
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some(part), None) => single(part, size).unwrap_or(ByteRange::Unsatisfiable),
        (Some(_), Some(_)) => ByteRange::Whole,
        (None, _) => ByteRange::Unsatisfiable,
    }
}

fn single(part: &str, size: u64) -> Option<ByteRange> {
    let (first, last) = part.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    let number = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse::<u64>().ok())?
    };
    let (start, end) = if first.is_empty() {
        // A suffix: the last N bytes.
        (size.saturating_sub(number(last)?), size)
    } else if last.is_empty() {
        (number(first)?, size)
    } else {
        (number(first)?, number(last)?.saturating_add(1).min(size))
    };
    (start < end).then(|| ByteRange::Part {
        start,
        length: end - start,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_clamped_to_the_file() {
        let part = |start, length| ByteRange::Part { start, length };
        for (range, size, expected) in [
            ("bytes=0-9", 100, part(0, 10)),
            ("bytes=90-", 100, part(90, 10)),
            ("bytes=90-1000", 100, part(90, 10)),
            ("bytes=-10", 100, part(90, 10)),
            ("bytes=-1000", 100, part(0, 100)),
            ("bytes= 5 - 5 ", 100, part(5, 1)),
            ("bytes=0-1,4-5", 100, ByteRange::Whole),
            ("bytes=0-9", 0, ByteRange::Whole),
            ("bytes=100-", 100, ByteRange::Unsatisfiable),
            ("bytes=9-3", 100, ByteRange::Unsatisfiable),
            ("bytes=-0", 100, ByteRange::Unsatisfiable),
            ("bytes=-", 100, ByteRange::Unsatisfiable),
            ("bytes=+1-2", 100, ByteRange::Unsatisfiable),
            ("bytes=", 100, ByteRange::Unsatisfiable),
            ("lines=1-2", 100, ByteRange::Unsatisfiable),
            ("bytes=0-18446744073709551615", 100, part(0, 100)),
            ("bytes=99999999999999999999-", 100, ByteRange::Unsatisfiable),
        ] {
            assert_eq!(requested_range(Some(range), size), expected, "{range}");
        }
        assert_eq!(requested_range(None, 5), ByteRange::Whole);
    }
}
