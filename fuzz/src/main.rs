//! Fuzz targets of every parser, in one libFuzzer binary.
//!
//! A [`Target`] is one parser as a function of bytes: it panics when the parser does, or when the
//! result breaks an invariant. The environment variable `SANDBAR_FUZZ_TARGET` selects the target,
//! so that all of them need one build and one link. `make fuzz` runs them.

#![no_main]

mod dictionary;
mod target;
mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

use crate::target::Target;

static SELECTED: OnceLock<Target> = OnceLock::new();

fuzz_target!(
    init: {
        dictionary::write_all_if_requested();
        SELECTED.get_or_init(Target::from_environment);
    },
    |bytes: &[u8]| {
        if let Some(target) = SELECTED.get() {
            (target.run)(bytes);
        }
    }
);
