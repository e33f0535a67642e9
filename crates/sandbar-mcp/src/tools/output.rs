//! Limit on the output of a tool. The host allows 1 MiB, which exceeds the context of most models.

use std::{io::Cursor, path::Path};

use sandbar_core::{SessionId, ToolCallId, ToolResponse, WriteOptions};

use super::{call::Call, hints::Hints};

/// Limit on characters of output in a result.
const MAX_CHARS: usize = 30_000;

/// Characters from the beginning of the output. The rest is from its end, where errors usually are.
const HEAD_CHARS: usize = 10_000;

/// Directory in the sandbox for output above the limit.
const DIRECTORY: &str = "/tmp/sandbar-mcp";

/// Truncates long output, and writes all of it to a file in the sandbox that the result names.
pub(super) async fn truncate(
    call: &Call<'_>,
    sandbox: &SessionId,
    tool: &str,
    id: &ToolCallId,
    mut response: ToolResponse,
) -> ToolResponse {
    let Some((head, omitted, tail)) = cut(&response.content) else {
        return response;
    };
    // A read-only tool must not write a file, and its caller can request a smaller part.
    let reads = Hints::of_host_tool(tool).is_some_and(Hints::is_read_only);
    let path = format!(
        "{DIRECTORY}/{}.txt",
        &blake3::hash(id.as_str().as_bytes()).to_hex()[..16]
    );
    let options = WriteOptions {
        create_dirs: true,
        ..WriteOptions::default()
    };
    let source = Cursor::new(response.content.clone().into_bytes());
    let kept = !reads
        && call
            .client
            .write_file(sandbox, Path::new(&path), options, source)
            .await
            .is_ok();
    let rest = match (kept, response.truncated) {
        (true, false) => format!("all of it is in {path}"),
        (true, true) => format!("more of it is in {path}; the rest was discarded"),
        (false, _) => "request a smaller part".to_owned(),
    };
    response.content = format!("{head}\n[{omitted} characters omitted; {rest}]\n{tail}");
    response.truncated = true;
    response
}

/// Returns beginning and end of a text above the limit, and the number of characters in between.
fn cut(text: &str) -> Option<(&str, usize, &str)> {
    // A character has at least one byte.
    if text.len() <= MAX_CHARS {
        return None;
    }
    let count = text.chars().count();
    let omitted = count
        .checked_sub(MAX_CHARS)
        .filter(|omitted| *omitted > 0)?;
    let (head, rest) = text.split_at(text.char_indices().nth(HEAD_CHARS)?.0);
    let tail = &rest[rest.char_indices().nth(omitted)?.0..];
    Some((head, omitted, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_output_keeps_beginning_and_end() {
        assert_eq!(cut(&"x".repeat(MAX_CHARS)), None);
        assert_eq!(cut(&"ö".repeat(MAX_CHARS)), None);
        let text = format!(
            "{}{}{}",
            "a".repeat(HEAD_CHARS),
            "ö".repeat(7),
            "z".repeat(MAX_CHARS - HEAD_CHARS)
        );
        let (head, omitted, tail) = cut(&text).unwrap();
        assert_eq!(
            (head.len(), omitted, tail.len()),
            (HEAD_CHARS, 7, MAX_CHARS - HEAD_CHARS)
        );
        assert!(head.ends_with('a') && tail.starts_with('z'));
    }
}
