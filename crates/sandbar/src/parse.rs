//! Values of the command line. Clap shows what these say when it refuses one.

use std::{path::PathBuf, str::FromStr, time::Duration};

use sandbar_core::{ByteCount, Error};

/// Parses one of the vocabulary's types, and keeps its hint.
pub(crate) fn word<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: Error| explain(&error))
}

fn explain(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error} — {hint}"),
        None => error.to_string(),
    }
}

/// `KEY=VALUE`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("this is not `KEY=VALUE` — write a name, `=` and a value, for example `team=red`".to_owned()),
    }
}

/// `30s`, `5m`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let hint = "write a number with a unit: `500ms`, `30s`, `5m`, `1h`";
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| format!("this is not a length of time — {hint}"))?;
    let duration = Duration::try_from(parsed).map_err(|_| format!("a length of time is not negative — {hint}"))?;
    if duration.is_zero() { Err(format!("the length of time is zero — {hint}")) } else { Ok(duration) }
}

/// A size that is not zero: `512M`, `2G`.
pub(crate) fn size(text: &str) -> Result<ByteCount, String> {
    let size: ByteCount = word(text)?;
    if size.get() == 0 { Err("the size is zero — leave the option out for no limit".to_owned()) } else { Ok(size) }
}

/// A positive number of CPUs: `0.5`, `2`.
pub(crate) fn cpus(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cpus) if cpus.is_finite() && cpus > 0.0 => Ok(cpus),
        _ => Err("this is not a positive number — write for example `0.5` or `2`".to_owned()),
    }
}

/// The `DIR:/workspace` of `run -v`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopiedDirectory {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
}

/// `DIR:/path/in/sandbox`.
pub(crate) fn copied_directory(text: &str) -> Result<CopiedDirectory, String> {
    let hint = "write `DIR:/workspace`";
    let Some((source, target)) = text.rsplit_once(':') else {
        return Err(format!("there is no `:` between the two directories — {hint}"));
    };
    if source.is_empty() {
        return Err(format!("the directory to copy from is empty — {hint}"));
    }
    if !target.starts_with('/') {
        return Err(format!("`{}` is not an absolute path in the sandbox — {hint}", target.escape_debug()));
    }
    Ok(CopiedDirectory { source: source.into(), target: target.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_parse_the_way_people_write_them() {
        for (text, milliseconds) in
            [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("1m30s", 90_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in ["", "30", "0s", "-5s", "soon"] {
            assert!(duration(bad).unwrap_err().contains("— write"), "{bad}");
        }
    }

    #[test]
    fn a_key_value_pair_may_hold_more_equal_signs_and_needs_a_key() {
        assert_eq!(key_value("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(key_value("A="), Ok(("A".to_owned(), String::new())));
        assert!(key_value("=x").is_err());
        assert!(key_value("x").is_err());
    }

    #[test]
    fn a_copied_directory_needs_both_sides_and_an_absolute_target() {
        let good = copied_directory("./src:/workspace").unwrap();
        assert_eq!((good.source, good.target), ("./src".into(), "/workspace".into()));
        for bad in ["src", ":/workspace", "src:workspace", "src:"] {
            assert!(copied_directory(bad).is_err(), "{bad}");
        }
    }
}
