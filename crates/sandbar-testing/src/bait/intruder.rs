//! The program that tries to get out.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
};

use crate::tree::set_mode;

/// `sandbar-intruder`, as cargo built it.
#[derive(Clone, Debug)]
pub struct Intruder {
    binary: PathBuf,
}

/// Names in the tree it is placed in.
const PROGRAM: &str = "intruder";
const SET_USER: &str = "intruder-of-another-user";
const SET_ROOT: &str = "intruder-of-root";
const BASE_FILE: &str = "etc/base-file";

impl Intruder {
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
        }
    }

    /// Beside the test that runs: cargo names the binaries of its own package only.
    pub fn find() -> Self {
        let test = env::current_exe().unwrap();
        // `debug/deps/test-0123456789abcdef`.
        let binary = test.ancestors().nth(2).unwrap().join("sandbar-intruder");
        assert!(
            binary.exists(),
            "there is no `{}`; run `cargo build -p sandbar-intruder`",
            binary.display()
        );
        Self { binary }
    }

    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Every attempt it knows, with its family.
    pub fn attempts(&self) -> BTreeMap<String, String> {
        let output = Command::new(&self.binary).arg("list").output().unwrap();
        assert!(output.status.success());
        let list = String::from_utf8(output.stdout).unwrap();
        let fields = list
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>());
        fields
            .map(|fields| (fields[0].to_owned(), fields[1].to_owned()))
            .collect()
    }

    /// Puts the program, and the files it goes for, into a tree that is going to be a base.
    pub fn place(&self, root: &Path) {
        for (name, owner, mode) in [
            (PROGRAM, 0, 0o755),
            (SET_USER, 1234, 0o4755),
            (SET_ROOT, 0, 0o4755),
        ] {
            let path = root.join(name);
            fs::copy(&self.binary, &path).unwrap();
            chown(&path, Some(owner), Some(owner)).unwrap();
            // After the owner, whose change takes the bit away.
            set_mode(&path, mode);
        }
        let file = root.join(BASE_FILE);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "what the base has always held\n").unwrap();
    }

    /// Arguments about its tree, mounted at `root`.
    pub fn facts(root: &Path) -> Vec<String> {
        let at = |name: &str| root.join(name).display().to_string();
        vec![
            format!("base-file={}", at(BASE_FILE)),
            format!("set-user-file={}", at(SET_USER)),
            format!("set-root-file={}", at(SET_ROOT)),
        ]
    }

    /// Its path in its tree, mounted at `root`.
    pub fn program(root: &Path) -> PathBuf {
        root.join(PROGRAM)
    }

    /// Path of the base file in its tree, mounted at `root`.
    pub fn base_file(root: &Path) -> PathBuf {
        root.join(BASE_FILE)
    }
}
