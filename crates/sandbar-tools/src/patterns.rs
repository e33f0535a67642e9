//! Compiling globs and ignore rules of untrusted text.
//!
//! `globset` and `ignore` are called only here. Their parser recurses once for every nested `{`,
//! and a stack overflow aborts the host with every sandbox on it, so a pattern is measured before
//! they see it.

use std::path::Path;

use globset::{GlobBuilder, GlobSet};
use ignore::{
    gitignore::{Gitignore, GitignoreBuilder},
    overrides::{Override, OverrideBuilder},
};

/// Longest glob, or line of an ignore file. This alone keeps the recursion far below what a
/// thread's stack holds.
pub(crate) const MAX_PATTERN_BYTES: usize = 1 << 10;

/// Deepest nesting of `{` in a glob.
const MAX_BRACE_DEPTH: usize = 8;

/// Longest regular expression.
const MAX_REGEX_BYTES: usize = 4 << 10;

/// Memory for a compiled regular expression, and again for the automaton built while it runs.
pub(crate) const MAX_REGEX_MEMORY: usize = 8 << 20;

/// Refuses a glob that is too large to be compiled, with a fragment that follows its name.
fn measure(pattern: &str) -> Result<(), String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("is longer than {MAX_PATTERN_BYTES} bytes"));
    }
    let mut depth = 0_usize;
    let mut escaped = false;
    for byte in pattern.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_BRACE_DEPTH {
            return Err(format!("nests braces more than {MAX_BRACE_DEPTH} deep"));
        }
    }
    Ok(())
}

/// Refuses a regular expression that is too long, with a fragment that follows its name.
pub(crate) fn measure_regex(pattern: &str) -> Result<(), String> {
    if pattern.len() > MAX_REGEX_BYTES {
        return Err(format!("is longer than {MAX_REGEX_BYTES} bytes"));
    }
    Ok(())
}

/// Compiles a glob in which `*` stays within one name. An error is a fragment that follows the
/// pattern's name.
pub(crate) fn glob(pattern: &str) -> Result<GlobSet, String> {
    measure(pattern)?;
    let wrong = |error: globset::Error| format!("is not a glob: {}", error.kind());
    let glob = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(wrong)?;
    // A set, because compiling a single glob panics when its regular expression cannot be built.
    GlobSet::builder().add(glob).build().map_err(wrong)
}

/// Compiles the globs of files to search and to leave out. An error is the name of the parameter
/// and a fragment.
pub(crate) fn overrides(
    include: Option<&str>,
    exclude: Option<&str>,
) -> Result<Override, (&'static str, String)> {
    let mut builder = OverrideBuilder::new("");
    let mut add = |name: &'static str, given: Option<&str>, prefix: &str| {
        let Some(pattern) = given else { return Ok(()) };
        measure(pattern).map_err(|why| (name, why))?;
        builder
            .add(&format!("{prefix}{pattern}"))
            .map_err(|error| (name, format!("is not a glob: {error}")))?;
        Ok(())
    };
    add("include", include, "")?;
    add("exclude", exclude, "!")?;
    let name = if include.is_some() {
        "include"
    } else {
        "exclude"
    };
    builder
        .build()
        .map_err(|error| (name, format!("is not a glob: {error}")))
}

/// Compiles the lines of an ignore file in `directory`. A line that is not a pattern ignores
/// nothing, as in git; neither does one that is too large.
pub(crate) fn ignore_file<'a>(directory: &Path, lines: impl Iterator<Item = &'a str>) -> Gitignore {
    let mut builder = GitignoreBuilder::new(directory);
    for line in lines.filter(|line| measure(line).is_ok()) {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}a{}", "{".repeat(depth), "}".repeat(depth))
    }

    #[test]
    fn glob_nested_to_the_bound_compiles_and_deeper_is_refused() {
        assert!(glob(&nested(MAX_BRACE_DEPTH)).unwrap().is_match("a"));
        for depth in [MAX_BRACE_DEPTH + 1, 300, 3_000, 60_000, 400_000] {
            glob(&nested(depth)).unwrap_err();
            overrides(Some(&nested(depth)), None).unwrap_err();
            assert_eq!(
                overrides(None, Some(&nested(depth))).unwrap_err().0,
                "exclude"
            );
        }
        assert!(glob(&"{a,b}".repeat(20)).unwrap().is_match("ab".repeat(10)));
        assert!(glob(&"\\{".repeat(20)).unwrap().is_match("{".repeat(20)));
    }

    #[test]
    fn pattern_longer_than_the_bound_is_refused() {
        let longest = "a".repeat(MAX_PATTERN_BYTES);
        assert!(glob(&longest).unwrap().is_match(&longest));
        assert!(glob(&format!("{longest}a")).unwrap_err().contains("longer"));
        assert!(measure_regex(&"a".repeat(MAX_REGEX_BYTES + 1)).is_err());
    }

    #[test]
    fn ignore_line_too_large_ignores_nothing_and_others_count() {
        let (deep, long) = (nested(15_000), "a".repeat(MAX_PATTERN_BYTES + 1));
        let rules = ignore_file(Path::new("/w"), [deep.as_str(), "b", &long].into_iter());
        assert_eq!(rules.len(), 1);
        assert!(rules.matched("/w/b", false).is_ignore());
    }
}
