//! Every parser under bytes nobody would send.
//!
//! A [`Target`] is one parser as a function of bytes: it panics when the parser does, or when what was parsed breaks a
//! promise. [`TARGETS`] has them all. The binary is a coverage-guided driver (`make fuzz`); without its special build it
//! still mutates, blindly. The functions are those `cargo fuzz` wants, so that it can take over where it is to be had.

mod mutator;
mod targets;

pub use mutator::{LONGEST, Mutator};
pub use targets::TARGETS;

/// A parser as a function of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Words of its language, for the mutator.
    pub words: &'static [&'static str],
    /// Whether it makes files of what it reads. Those run only where they can harm nothing.
    pub writes_files: bool,
}

impl Target {
    const fn new(name: &'static str, run: fn(&[u8])) -> Self {
        Self { name, run, words: &[], writes_files: false }
    }

    const fn with_words(mut self, words: &'static [&'static str]) -> Self {
        self.words = words;
        self
    }

    const fn writing_files(mut self) -> Self {
        self.writes_files = true;
        self
    }

    /// Where the seeds of a target are.
    pub fn seeds(&self) -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(self.name)
    }
}
