//! Package registries: `scripts/setup-clients.sh` installs clients of others from them, where they can be reached.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::report_skip;

/// Where packages come from.
#[derive(Clone, Copy, Debug)]
pub enum Registry {
    PyPi,
    Npm,
    Debian,
}

impl fmt::Display for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::PyPi => "PyPI",
            Self::Npm => "npm",
            Self::Debian => "Debian",
        })
    }
}

impl Registry {
    /// Says that a test was skipped because setup could not reach this registry. Without a note of setup that it is so,
    /// the packages are missing for another reason, and that is a failure.
    ///
    /// `scripts/test.sh` knows this reason, and no other, as one that does not fail a run where everything must run.
    pub fn report_out_of_reach(self, test: &str) {
        let marker = cache().join("registry-out-of-reach").join(self.to_string());
        assert!(marker.exists(), "the packages {test} needs from {self} are missing; `make setup-tests` installs them");
        report_skip(test, &format!("package registry out of reach ({self})"));
    }
}

/// Something setup has installed, by its path below the cache, if it is there.
pub fn installed(path: &str) -> Option<PathBuf> {
    existing(cache().join(path))
}

/// A file of the Python environment setup makes, if it is there.
pub fn installed_python(file: &str) -> Option<PathBuf> {
    installed(&format!("python/{file}"))
}

/// The packages setup installed for a program of `tests/foreign`, if it did.
pub fn installed_node_modules(program: &str) -> Option<PathBuf> {
    let directory = cache().join("node").join(program);
    // Setup writes it last: what npm left half done does not count.
    existing(directory.join(".installed")).map(|_| directory.join("node_modules"))
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.exists().then_some(path)
}

fn cache() -> PathBuf {
    Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache/sandbar")
}
