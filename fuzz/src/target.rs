//! A target and its selection.

use crate::targets::TARGETS;

/// Environment variable that names the target to run.
const TARGET_VARIABLE: &str = "SANDBAR_FUZZ_TARGET";

/// A parser as a function of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
    /// Words of its language, for libFuzzer's dictionary.
    pub(crate) words: &'static [&'static str],
    /// Whether it writes files. Root does not run such a target.
    writes_files: bool,
}

impl Target {
    pub(crate) const fn new(name: &'static str, run: fn(&[u8])) -> Self {
        Self {
            name,
            run,
            words: &[],
            writes_files: false,
        }
    }

    pub(crate) const fn with_words(mut self, words: &'static [&'static str]) -> Self {
        self.words = words;
        self
    }

    pub(crate) const fn writing_files(mut self) -> Self {
        self.writes_files = true;
        self
    }

    /// Returns the target that `SANDBAR_FUZZ_TARGET` names. A panic ends the fuzzer.
    pub(crate) fn from_environment() -> Self {
        let name = std::env::var(TARGET_VARIABLE).unwrap_or_default();
        let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
            panic!(
                "{TARGET_VARIABLE} `{name}` is not one of {:?}",
                TARGETS.map(|target| target.name)
            );
        };
        let is_root = rustix::process::geteuid().is_root();
        assert!(
            !(target.writes_files && is_root),
            "`{name}` writes files: run it as another user, as `make fuzz` does"
        );
        *target
    }
}
