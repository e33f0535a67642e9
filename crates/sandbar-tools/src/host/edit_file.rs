//! `edit_file`.

use std::path::Path;

use memchr::memmem;
use sandbar_core::{Error, MakeDirOptions, Result, WriteOptions};
use sandbar_tree::session_tree::absolute;

use super::{
    content::{Content, ContentKind},
    nearest::nearest,
};
use crate::{
    context::HostSide,
    outcome::Outcome,
    params::{FilePath, tool},
    registry::HostTool,
};

/// Bytes a file may grow by in one edit.
const MAX_GROWTH_BYTES: usize = 10 << 20;

/// Line numbers listed when a text occurs more than once.
const MAX_LISTED_LINES: usize = 10;

tool! {
    /// Replaces text in a file. `old_string` must be exactly what is there, white space included,
    /// and must be there once unless `replace_all` is set. Line numbers of `read_file` are not part
    /// of the text.
    "edit_file", Host;
    pub(crate) struct EditFile {
        /// The file. Relative paths start at /workspace.
        path: FilePath,
        /// The text to replace.
        old_string: String,
        /// The text to put in its place.
        new_string: String,
        /// Replace it wherever it is.
        replace_all: bool = false,
    }
}

impl HostTool for EditFile {
    fn validate(&self) -> Result<()> {
        if self.old_string.is_empty() {
            return Err(Error::invalid("old_string", "`old_string` is empty")
                .with_hint("give the text to replace; to make a new file, use `write_file`"));
        }
        if self.old_string == self.new_string {
            return Err(
                Error::invalid("new_string", "`new_string` is the same as `old_string`")
                    .with_hint("nothing would change"),
            );
        }
        Ok(())
    }

    fn run(self, side: &HostSide) -> Result<Outcome> {
        let path = absolute(Path::new(self.path.as_str()))?;
        let shown = self.path.as_str();
        // The metadata is read before the content, so that a later change is detected by its time.
        let before = side
            .tree
            .write_target(&path, MakeDirOptions::default())?
            .existing;
        let content = Content::read(side, &path)?;
        if content.kind() != ContentKind::Text {
            return Ok(Outcome::failed(format!(
                "`{shown}` is not a text file, and is not edited"
            )));
        }
        let places = Places::find(&content.bytes, &self.old_string);
        if places.count == 0 {
            return Ok(self.not_found(&content.bytes));
        }
        if places.count > 1 && !self.replace_all {
            return Ok(Outcome::failed(format!(
                "`old_string` is {} times in `{shown}`, at {}\n\
                 hint: give more of the text around it, so that it is there once, or set `replace_all`",
                places.count,
                places.name(),
            )));
        }
        let longer = self
            .new_string
            .len()
            .saturating_sub(self.old_string.len())
            .saturating_mul(places.count);
        if longer > MAX_GROWTH_BYTES {
            return Ok(Outcome::failed(format!(
                "`{shown}` would grow by {longer} bytes, more than {MAX_GROWTH_BYTES}"
            )));
        }
        let mut draft = side.tree.draft(&path, WriteOptions::default())?;
        draft.write(&replaced(
            &content.bytes,
            &self.old_string,
            &self.new_string,
        ))?;
        side.check()?;
        let unchanged = before
            .as_ref()
            .zip(draft.existing())
            .is_some_and(|(then, now)| {
                (then.st_ino, then.st_size, then.st_ctime, then.st_ctime_nsec)
                    == (now.st_ino, now.st_size, now.st_ctime, now.st_ctime_nsec)
            });
        if !unchanged {
            return Err(Error::invalid(
                "path",
                format!("`{shown}` was changed by something else while it was edited"),
            )
            .with_hint("read it again, and edit what is there now"));
        }
        draft.commit()?;
        let times = if places.count == 1 {
            "once".to_owned()
        } else {
            format!("{} times", places.count)
        };
        Ok(Outcome::text(format!(
            "edited `{shown}`: replaced {times}, at {}",
            places.name()
        )))
    }
}

impl EditFile {
    /// Reports that the text does not occur, with the most similar part of the file.
    fn not_found(&self, bytes: &[u8]) -> Outcome {
        let mut answer = format!("`old_string` is not in `{}`", self.path.as_str());
        let with_returns = self.old_string.replace('\n', "\r\n");
        if self.old_string.contains('\n') && memmem::find(bytes, with_returns.as_bytes()).is_some()
        {
            answer.push_str(
                "; lines of this file end with \\r\\n, and those of `old_string` with \\n",
            );
        } else {
            answer.push_str(&nearest(bytes, &self.old_string));
        }
        Outcome::failed(answer)
    }
}

/// Returns the file with all occurrences replaced.
fn replaced(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for place in memmem::find_iter(bytes, old) {
        result.extend_from_slice(&bytes[from..place]);
        result.extend_from_slice(new.as_bytes());
        from = place + old.len();
    }
    result.extend_from_slice(&bytes[from..]);
    result
}

/// Occurrences of a text in a file.
struct Places {
    count: usize,
    /// Line numbers of the first [`MAX_LISTED_LINES`].
    lines: Vec<usize>,
}

impl Places {
    fn find(bytes: &[u8], text: &str) -> Self {
        let mut places = Self {
            count: 0,
            lines: Vec::new(),
        };
        let (mut line, mut from) = (1, 0);
        for place in memmem::find_iter(bytes, text) {
            places.count += 1;
            if places.count <= MAX_LISTED_LINES {
                line += memchr::memchr_iter(b'\n', &bytes[from..place]).count();
                from = place;
                places.lines.push(line);
            }
        }
        places
    }

    /// Formats `line 3`, or `lines 3, 7 and 12 more`.
    fn name(&self) -> String {
        let numbers: Vec<String> = self.lines.iter().map(ToString::to_string).collect();
        let word = if self.count == 1 { "line" } else { "lines" };
        let rest = match self.count - numbers.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{word} {}{rest}", numbers.join(", "))
    }
}

/// Entry point of the fuzzer: the size changes by what was replaced, and lines are counted from 1.
#[cfg(fuzzing)]
pub(super) fn try_edit(bytes: &[u8], old: &str, new: &str) {
    if old.is_empty() {
        return;
    }
    let places = Places::find(bytes, old);
    assert_eq!(
        replaced(bytes, old, new).len() + places.count * old.len(),
        bytes.len() + places.count * new.len()
    );
    assert!(
        places.lines.iter().all(|line| *line >= 1) && places.lines.is_sorted(),
        "{:?}",
        places.lines
    );
    let _ = places.name();
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use crate::host::testing::Workbench;

    #[test]
    fn text_that_is_there_once_is_replaced_and_the_mode_stays() {
        let bench = Workbench::new();
        bench.write("f", "one\ntwo\nthree\n");
        std::fs::set_permissions(bench.path("f"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let answer = bench.run(
            "edit_file",
            json!({"path": "f", "old_string": "two", "new_string": "zwei\ndrei"}),
        );
        assert_eq!(answer.content, "edited `f`: replaced once, at line 2");
        assert_eq!(bench.read("f"), "one\nzwei\ndrei\nthree\n");
        assert_eq!(
            bench.path("f").metadata().unwrap().permissions().mode() & 0o7777,
            0o700
        );
        let answer = bench.run(
            "edit_file",
            json!({"path": "f", "old_string": "zwei\ndrei\n", "new_string": ""}),
        );
        assert!(!answer.is_error);
        assert_eq!(bench.read("f"), "one\nthree\n");
    }

    #[test]
    fn text_that_is_there_often_is_replaced_only_when_asked() {
        let bench = Workbench::new();
        bench.write("f", "aa aa\naa\n");
        let refused = bench.run(
            "edit_file",
            json!({"path": "f", "old_string": "aa", "new_string": "b"}),
        );
        assert!(
            refused.is_error
                && refused.content.contains("3 times")
                && refused.content.contains("lines 1, 1, 2")
        );
        assert_eq!(bench.read("f"), "aa aa\naa\n");
        assert_eq!(bench.names(), ["f"]);
        let done = bench.run(
            "edit_file",
            json!({"path": "f", "old_string": "aa", "new_string": "aab", "replace_all": true}),
        );
        assert_eq!(
            done.content,
            "edited `f`: replaced 3 times, at lines 1, 1, 2"
        );
        assert_eq!(bench.read("f"), "aab aab\naab\n");
    }

    #[test]
    fn an_edit_that_would_blow_a_file_up_is_refused() {
        let bench = Workbench::new();
        bench.write("f", &"a".repeat(2000));
        let params = json!({"path": "f", "old_string": "a", "new_string": "b".repeat(10_000), "replace_all": true});
        let answer = bench.run("edit_file", params);
        assert!(
            answer.is_error && answer.content.contains("would grow"),
            "{}",
            answer.content
        );
        let often = bench.run(
            "edit_file",
            json!({"path": "f", "old_string": "a", "new_string": "b"}),
        );
        assert!(
            often.content.contains("2000 times") && often.content.contains("and 1990 more"),
            "{}",
            often.content
        );
    }

    #[test]
    fn bytes_that_are_no_text_stay_as_they_are() {
        let bench = Workbench::new();
        bench.write_bytes("f", b"caf\xe9 old \xff\n");
        bench.run(
            "edit_file",
            json!({"path": "f", "old_string": "old", "new_string": "new"}),
        );
        assert_eq!(
            std::fs::read(bench.path("f")).unwrap(),
            b"caf\xe9 new \xff\n"
        );
    }

    #[test]
    fn text_that_is_not_there_is_answered_with_the_nearest() {
        let bench = Workbench::new();
        bench.write(
            "f",
            "fn main() {\n    let answer = compute(42);\n    println!(\"{answer}\");\n}\n",
        );
        let wrong =
            json!({"path": "f", "old_string": "let answer = compute(41);", "new_string": "x"});
        let answer = bench.run("edit_file", wrong);
        assert!(
            answer.is_error
                && answer
                    .content
                    .contains("     2\t    let answer = compute(42);"),
            "{}",
            answer.content
        );
        bench.write("f", "one\r\ntwo\r\n");
        let ends = bench.run(
            "edit_file",
            json!({"path": "f", "old_string": "one\ntwo", "new_string": "x"}),
        );
        assert!(
            ends.is_error && ends.content.contains("\\r\\n"),
            "{}",
            ends.content
        );
        let missing = bench.run(
            "edit_file",
            json!({"path": "none", "old_string": "a", "new_string": "b"}),
        );
        assert!(
            missing.is_error && missing.content.contains("does not exist"),
            "{}",
            missing.content
        );
        assert_eq!(bench.names(), ["f"]);
    }
}
