//! Writes libFuzzer dictionaries with the keywords of each target.

use std::{fmt::Write as _, fs, path::Path, process};

use crate::{target::Target, targets::TARGETS};

/// Environment variable that names a directory: a dictionary of every target is written to it, and
/// nothing is fuzzed.
const DICTIONARIES_VARIABLE: &str = "SANDBAR_FUZZ_DICTIONARIES";

/// Writes `NAME.dict` of every target and exits, if `SANDBAR_FUZZ_DICTIONARIES` is set.
pub(crate) fn write_all_if_requested() {
    let Some(directory) = std::env::var_os(DICTIONARIES_VARIABLE) else {
        return;
    };
    for target in TARGETS {
        let path = Path::new(&directory)
            .join(target.name)
            .with_extension("dict");
        if let Err(error) = fs::write(&path, dictionary(&target)) {
            panic!("failed to write `{}`: {error}", path.display());
        }
    }
    process::exit(0);
}

/// Returns one keyword a line, in quotes, with every byte escaped. The comment is needed because
/// libFuzzer refuses an empty file.
fn dictionary(target: &Target) -> String {
    let mut text = format!("# {}\n", target.name);
    for word in target.words {
        let escaped = word.bytes().fold(String::new(), |mut escaped, byte| {
            let _ = write!(escaped, "\\x{byte:02x}");
            escaped
        });
        let _ = writeln!(text, "\"{escaped}\"");
    }
    text
}
