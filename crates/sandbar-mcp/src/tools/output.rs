//! Bounds on the output of a tool: the host allows a mebibyte, which is more than most models can read.

use std::{io::Cursor, path::Path};

use sandbar_core::{SessionId, ToolCallId, ToolResponse, WriteOptions};

use super::{call::Call, hints::Hints};

/// Characters of a tool's output that are answered.
const MAX_CHARS: usize = 30_000;

/// How many of them are the beginning. The rest is the end, where programs say what went wrong.
const HEAD_CHARS: usize = 10_000;

/// Directory in the sandbox for output that was too long to be answered.
const DIRECTORY: &str = "/tmp/sandbar-mcp";

/// Cuts output that is too long, and keeps all of it in a file of the sandbox, which the answer names.
pub(super) async fn bound(
    call: &Call<'_>,
    sandbox: &SessionId,
    tool: &str,
    id: &ToolCallId,
    mut response: ToolResponse,
) -> ToolResponse {
    let Some((head, left_out, tail)) = cut(&response.content) else { return response };
    // A tool that reads leaves the sandbox as it is; its caller can ask for less.
    let reads = Hints::of_host_tool(tool).is_some_and(Hints::is_read_only);
    let path = format!("{DIRECTORY}/{}.txt", &blake3::hash(id.as_str().as_bytes()).to_hex()[..16]);
    let options = WriteOptions { create_dirs: true, ..WriteOptions::default() };
    let source = Cursor::new(response.content.clone().into_bytes());
    let kept = !reads && call.client.write_file(sandbox, Path::new(&path), options, source).await.is_ok();
    let rest = match (kept, response.truncated) {
        (true, false) => format!("all of it is in {path}"),
        (true, true) => format!("more of it is in {path}, and the rest is lost"),
        (false, _) => "ask for less at a time".to_owned(),
    };
    response.content = format!("{head}\n[{left_out} characters left out; {rest}]\n{tail}");
    response.truncated = true;
    response
}

/// The beginning and the end of a text that is too long, and how many characters are between them.
fn cut(text: &str) -> Option<(&str, usize, &str)> {
    // A character has at least one byte.
    if text.len() <= MAX_CHARS {
        return None;
    }
    let count = text.chars().count();
    let left_out = count.checked_sub(MAX_CHARS).filter(|left_out| *left_out > 0)?;
    let (head, rest) = text.split_at(text.char_indices().nth(HEAD_CHARS)?.0);
    let tail = &rest[rest.char_indices().nth(left_out)?.0..];
    Some((head, left_out, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_beyond_the_limit_keeps_its_beginning_and_its_end() {
        assert_eq!(cut(&"x".repeat(MAX_CHARS)), None);
        assert_eq!(cut(&"ö".repeat(MAX_CHARS)), None);
        let text = format!("{}{}{}", "a".repeat(HEAD_CHARS), "ö".repeat(7), "z".repeat(MAX_CHARS - HEAD_CHARS));
        let (head, left_out, tail) = cut(&text).unwrap();
        assert_eq!((head.len(), left_out, tail.len()), (HEAD_CHARS, 7, MAX_CHARS - HEAD_CHARS));
        assert!(head.ends_with('a') && tail.starts_with('z'));
    }
}
