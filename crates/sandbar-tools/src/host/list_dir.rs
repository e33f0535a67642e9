//! `list_dir`.

use std::{num::NonZeroU64, path::Path};

use sandbar_core::{EntryType, FileStat, Result, shown, shown_path};
use sandbar_tree::session_tree::absolute;

use crate::{
    context::HostSide,
    outcome::Outcome,
    params::{FilePath, tool},
    registry::HostTool,
    text::BoundedText,
};

/// Entries of one answer.
const MAX_ENTRIES: usize = 2000;

tool! {
    /// Lists a directory: type, permissions, size in bytes and name of every entry, hidden ones
    /// too, sorted by name. Links are shown with where they point, and are not followed.
    "list_dir", Host;
    pub(crate) struct ListDir {
        /// The directory. Relative paths start at /workspace, which is the default.
        path: Option<FilePath>,
        /// The number of levels to list; 1 is the directory's own entries.
        depth: NonZeroU64 = NonZeroU64::MIN,
    }
}

impl HostTool for ListDir {
    fn run(self, side: &HostSide) -> Result<Outcome> {
        let given = self.path.as_ref().map_or(".", FilePath::as_str);
        let start = absolute(Path::new(given))?;
        let depth = u32::try_from(self.depth.get()).unwrap_or(u32::MAX);
        let listing = side.tree.list(&start, depth, MAX_ENTRIES)?;
        if listing.entries.is_empty() {
            return Ok(Outcome::text(format!("[`{}` is empty]", shown(given))));
        }
        let mut text = BoundedText::default();
        let fitted = listing
            .entries
            .iter()
            .take_while(|entry| text.push(&line(&start, entry)))
            .count();
        let truncated = listing.truncated || fitted < listing.entries.len();
        let note = truncated.then(|| {
            format!("these are the first {fitted} entries; list a directory below, or find files with `glob`").into()
        });
        Ok(Outcome {
            content: text.with_note(note),
            truncated,
            ..Outcome::default()
        })
    }
}

/// Type, mode, size and path below the directory that is listed.
fn line(start: &Path, entry: &FileStat) -> String {
    let below = entry.path.strip_prefix(start).unwrap_or(&entry.path);
    let (size, ending) = match entry.entry {
        EntryType::File => (entry.size.get().to_string(), String::new()),
        EntryType::Directory => ("-".to_owned(), "/".to_owned()),
        EntryType::Symlink => {
            let target = entry.symlink_target.as_deref().unwrap_or(Path::new("?"));
            ("-".to_owned(), format!(" -> {}", shown_path(target)))
        }
        _ => ("-".to_owned(), String::new()),
    };
    // A newline in a name would pass for an entry of its own.
    let name = format!("{}{ending}", shown_path(below));
    format!(
        "{:<12} {:04o} {size:>10} {name}\n",
        entry.entry.as_str(),
        entry.mode
    )
}

#[cfg(test)]
mod tests {
    use sandbar_core::is_unprintable;
    use serde_json::json;

    use super::*;
    use crate::host::testing::Workbench;

    #[test]
    fn entries_come_with_type_mode_and_size() {
        let bench = Workbench::new();
        bench.write("dir/inner/file", "12345");
        bench.write(".hidden", "");
        std::os::unix::fs::symlink("/etc/passwd", bench.path("link")).unwrap();
        let answer = bench.run("list_dir", json!({}));
        assert_eq!(
            answer.content,
            "file         0644          0 .hidden\n\
             directory    0755          - dir/\n\
             symlink      0777          - link -> /etc/passwd\n"
        );
        let deep = bench.run("list_dir", json!({"path": "dir", "depth": 2}));
        assert_eq!(
            deep.content,
            "directory    0755          - inner/\nfile         0644          5 inner/file\n"
        );
        assert_eq!(
            bench
                .run("list_dir", json!({"path": "/workspace/dir/inner"}))
                .content
                .lines()
                .count(),
            1
        );
    }

    #[test]
    fn a_large_directory_and_a_deep_one_are_cut() {
        let bench = Workbench::new();
        std::fs::create_dir(bench.path("many")).unwrap();
        for number in 0..=MAX_ENTRIES {
            std::fs::write(bench.path(&format!("many/{number:05}")), "").unwrap();
        }
        let many = bench.run("list_dir", json!({"path": "many"}));
        assert!(many.truncated && many.content.contains("the first 2000 entries"));
        bench.nest("deep", 600);
        let deep = bench.run(
            "list_dir",
            json!({"path": "deep", "depth": 4_000_000_000u64}),
        );
        assert!(
            deep.truncated && deep.content.lines().count() > 100,
            "{}",
            deep.content.lines().count()
        );
    }

    #[test]
    fn names_reach_the_terminal_escaped() {
        let bench = Workbench::new();
        let name = "a\u{1b}[2J\r\u{9b}1m\u{202e}b\nc";
        let shown = r"a\u{1b}[2J\r\u{9b}1m\u{202e}b\nc";
        bench.write(name, "text");
        std::os::unix::fs::symlink(name, bench.path("link")).unwrap();
        for (tool, params) in [
            ("list_dir", json!({})),
            ("glob", json!({"pattern": "*"})),
            ("grep", json!({"pattern": "text"})),
            ("list_dir", json!({"path": name})),
            ("read_file", json!({"path": format!("{name}/none")})),
            ("read_file", json!({"path": format!("missing{name}")})),
        ] {
            let answer = bench.run(tool, params).content;
            assert!(answer.contains(shown), "{tool}: {answer:?}");
            assert!(
                !answer.chars().any(|c| c != '\n' && is_unprintable(c)),
                "{tool}: {answer:?}"
            );
        }
    }

    #[test]
    fn what_is_no_directory_is_said_in_words() {
        let bench = Workbench::new();
        bench.write("f", "");
        std::fs::create_dir(bench.path("empty")).unwrap();
        assert_eq!(
            bench.run("list_dir", json!({"path": "empty"})).content,
            "[`empty` is empty]"
        );
        for path in ["f", "none"] {
            assert!(
                bench.run("list_dir", json!({"path": path})).is_error,
                "{path}"
            );
        }
    }
}
