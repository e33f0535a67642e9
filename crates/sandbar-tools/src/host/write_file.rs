//! `write_file`.

use std::path::Path;

use sandbar_core::{Result, WriteOptions};
use sandbar_tree::session_tree::absolute;

use crate::{
    context::HostSide,
    outcome::Outcome,
    params::{FilePath, tool},
    registry::HostTool,
};

tool! {
    /// Writes a file, replacing what was there. The file appears whole or not at all, and keeps the
    /// permissions of the one it replaces.
    "write_file", Host;
    pub(crate) struct WriteFile {
        /// The file. Relative paths start at /workspace. Links are followed, inside the sandbox.
        path: FilePath,
        /// The whole content of the file.
        content: String,
        /// Make directories that are missing above it.
        create_dirs: bool = true,
    }
}

impl HostTool for WriteFile {
    fn run(self, side: &HostSide) -> Result<Outcome> {
        let path = absolute(Path::new(self.path.as_str()))?;
        let mut draft = side.tree.draft(
            &path,
            WriteOptions {
                create_dirs: self.create_dirs,
                ..WriteOptions::default()
            },
        )?;
        draft.write(self.content.as_bytes())?;
        let what = if draft.existing().is_some() {
            "replaced"
        } else {
            "made"
        };
        side.check()?;
        draft.commit()?;
        Ok(Outcome::text(format!(
            "{what} `{}`: {} bytes",
            self.path.as_str(),
            self.content.len()
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use serde_json::json;

    use crate::host::testing::Workbench;

    #[test]
    fn a_new_file_is_made_with_the_directories_above_it() {
        let bench = Workbench::new();
        let answer = bench.run(
            "write_file",
            json!({"path": "deep/er/f", "content": "hällo"}),
        );
        assert_eq!(answer.content, "made `deep/er/f`: 6 bytes");
        assert_eq!(bench.read("deep/er/f"), "hällo");
        assert_eq!(
            bench.path("deep/er/f").metadata().unwrap().mode() & 0o7777,
            0o644
        );
        let refused = bench.run(
            "write_file",
            json!({"path": "other/f", "content": "", "create_dirs": false}),
        );
        assert!(
            refused.is_error && refused.content.contains("does not exist"),
            "{}",
            refused.content
        );
        assert!(!bench.path("other").exists());
    }

    #[test]
    fn a_replaced_file_keeps_mode_and_owner_and_is_a_new_inode() {
        let bench = Workbench::new();
        bench.write("f", "old");
        std::fs::set_permissions(bench.path("f"), std::fs::Permissions::from_mode(0o751)).unwrap();
        std::os::unix::fs::chown(bench.path("f"), Some(12), Some(34)).unwrap();
        let before = bench.path("f").metadata().unwrap();
        let answer = bench.run("write_file", json!({"path": "f", "content": "new"}));
        assert_eq!(answer.content, "replaced `f`: 3 bytes");
        let after = bench.path("f").metadata().unwrap();
        assert_eq!(
            (after.mode() & 0o7777, after.uid(), after.gid()),
            (0o751, 12, 34)
        );
        assert_ne!(after.ino(), before.ino());
    }

    #[test]
    fn no_temporary_is_left_when_writing_fails() {
        let bench = Workbench::new();
        bench.write("f", "old");
        for (path, words) in [
            ("/", "directory"),
            (".", "directory"),
            ("f/", "directory"),
            ("g/.", "directory"),
            ("f/x", "does not exist"),
        ] {
            let answer = bench.run("write_file", json!({"path": path, "content": "new"}));
            assert!(
                answer.is_error && answer.content.contains(words),
                "{path}: {}",
                answer.content
            );
        }
        assert_eq!(bench.names(), ["f"]);
        assert_eq!(bench.read("f"), "old");
    }

    #[test]
    fn what_is_written_through_a_link_ends_where_the_link_does() {
        let bench = Workbench::new();
        bench.write("target", "old");
        std::os::unix::fs::symlink("target", bench.path("link")).unwrap();
        bench.run("write_file", json!({"path": "link", "content": "new"}));
        assert!(bench.path("link").is_symlink());
        assert_eq!(bench.read("target"), "new");
    }
}
