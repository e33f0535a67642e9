//! `read_file`.

use std::{num::NonZeroU64, path::Path};

use bytes::Bytes;
use sandbar_core::{ByteCount, ContentBlock, Result};
use sandbar_tree::session_tree::absolute;

use super::content::{Content, ContentKind};
use crate::{
    context::HostSide,
    outcome::Outcome,
    params::{FilePath, count, tool},
    registry::HostTool,
    text::{BoundedText, numbered},
};

tool! {
    /// Reads a file. Text comes with numbered lines, and very long lines are cut with a marker;
    /// PNG, JPEG, GIF and WebP images come as an image; other binary files are refused. Files up to
    /// 10 MiB.
    "read_file", Host;
    pub(crate) struct ReadFile {
        /// The file. Relative paths start at /workspace.
        path: FilePath,
        /// The first line to read, counted from 0.
        offset: u64 = 0,
        /// The number of lines to read.
        limit: NonZeroU64 = count(2000),
    }
}

impl HostTool for ReadFile {
    fn run(self, side: &HostSide) -> Result<Outcome> {
        let content = Content::read(side, &absolute(Path::new(self.path.as_str()))?)?;
        let (path, length) = (self.path.as_str(), ByteCount(content.bytes.len() as u64));
        match content.kind() {
            ContentKind::Text => Ok(self.lines(&content.bytes)),
            ContentKind::Image(media_type) => Ok(Outcome {
                content: format!("`{path}` is an image ({media_type}, {length})"),
                blocks: vec![ContentBlock::Image {
                    media_type: media_type.into(),
                    data: Bytes::from(content.bytes),
                }],
                ..Outcome::default()
            }),
            ContentKind::Binary => Ok(Outcome::failed(format!(
                "`{path}` is a binary file ({length}) and cannot be shown as text\n\
                 hint: look at it with a program in the sandbox, for example `bash`: file FILE, or xxd FILE | head"
            ))),
        }
    }
}

impl ReadFile {
    fn lines(&self, bytes: &[u8]) -> Outcome {
        let path = self.path.as_str();
        // Counted and not collected: a file may be nothing but line ends.
        let lines = || bytes.split_inclusive(|byte| *byte == b'\n');
        let total = memchr::memchr_iter(b'\n', bytes).count()
            + usize::from(!bytes.is_empty() && !bytes.ends_with(b"\n"));
        if total == 0 && self.offset == 0 {
            return Outcome::text(format!("[`{path}` is empty]"));
        }
        let first = usize::try_from(self.offset).unwrap_or(usize::MAX);
        if first >= total {
            return Outcome::failed(format!(
                "`{path}` has {total} lines, and offset {first} is past its end"
            ));
        }
        let wanted = usize::try_from(self.limit.get()).unwrap_or(usize::MAX);
        let mut text = BoundedText::default();
        let mut shown = 0;
        for (position, line) in lines().enumerate().skip(first).take(wanted) {
            if !text.push(&numbered(position + 1, line)) {
                break;
            }
            shown += 1;
        }
        let next = first + shown;
        let truncated = next < total;
        let note = truncated.then(|| {
            format!(
                "lines {}-{next} of {total}; go on with offset {next}",
                first + 1
            )
            .into()
        });
        Outcome {
            content: text.with_note(note),
            truncated,
            ..Outcome::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::host::testing::Workbench;

    #[test]
    fn lines_are_numbered_and_pages_follow_each_other() {
        let bench = Workbench::new();
        bench.write("f", "one\ntwo\r\n\nfour");
        let all = bench.run("read_file", json!({"path": "f"}));
        assert_eq!(
            all.content,
            "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n"
        );
        assert!(!all.is_error && !all.truncated);
        let page = bench.run(
            "read_file",
            json!({"path": "/workspace/f", "offset": 1, "limit": 2}),
        );
        assert_eq!(
            page.content,
            "     2\ttwo\n     3\t\n[lines 2-3 of 4; go on with offset 3]"
        );
        assert!(page.truncated);
        let past = bench.run("read_file", json!({"path": "f", "offset": 4}));
        assert!(
            past.is_error && past.content.contains("4 lines"),
            "{}",
            past.content
        );
    }

    #[test]
    fn at_most_two_thousand_lines_come_unless_asked_for() {
        let bench = Workbench::new();
        bench.write("f", &"x\n".repeat(2001));
        let some = bench.run("read_file", json!({"path": "f"}));
        assert!(
            some.truncated
                && some
                    .content
                    .ends_with("[lines 1-2000 of 2001; go on with offset 2000]")
        );
        assert!(
            !bench
                .run("read_file", json!({"path": "f", "limit": 2001}))
                .truncated
        );
    }

    #[test]
    fn what_does_not_fit_into_an_answer_is_left_for_the_next_page() {
        let bench = Workbench::new();
        bench.write("f", &format!("{}\n", "y".repeat(1999)).repeat(1000));
        let page = bench.run("read_file", json!({"path": "f"}));
        assert!(page.truncated && page.content.len() <= crate::CONTENT_LIMIT + 100);
        assert!(
            page.content.contains("go on with offset 522"),
            "{}",
            &page.content[page.content.len() - 80..]
        );
    }

    #[test]
    fn images_come_as_blocks_and_other_binaries_are_refused() {
        let bench = Workbench::new();
        for (head, media_type) in [
            (&b"\x89PNG\r\n\x1a\n"[..], "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        ] {
            bench.write_bytes("picture", head);
            let answer = bench.run("read_file", json!({"path": "picture"}));
            assert!(!answer.is_error);
            let [
                ContentBlock::Image {
                    media_type: told,
                    data,
                },
            ] = answer.content_blocks.as_slice()
            else {
                panic!("{answer:?}")
            };
            assert_eq!((told.as_str(), &data[..]), (media_type, head));
        }
        bench.write_bytes("program", b"\x7fELF\0\0\0");
        let refused = bench.run("read_file", json!({"path": "program"}));
        assert!(
            refused.is_error && refused.content.contains("binary"),
            "{}",
            refused.content
        );
        bench.write_bytes("latin", b"caf\xe9\n");
        assert_eq!(
            bench.run("read_file", json!({"path": "latin"})).content,
            "     1\tcaf\u{fffd}\n"
        );
    }

    #[test]
    fn what_is_not_there_not_a_file_or_too_large_is_said_in_words() {
        let bench = Workbench::new();
        bench.write("empty", "");
        assert_eq!(
            bench.run("read_file", json!({"path": "empty"})).content,
            "[`empty` is empty]"
        );
        std::fs::File::create(bench.path("huge"))
            .unwrap()
            .set_len((10 << 20) + 1)
            .unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            bench.path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        for (path, words) in [
            ("none", "does not exist"),
            (".", "is a directory"),
            ("huge", "10"),
            ("pipe", "not a regular file"),
        ] {
            let answer = bench.run("read_file", json!({"path": path}));
            assert!(
                answer.is_error && answer.content.contains(words),
                "{path}: {}",
                answer.content
            );
        }
    }
}
