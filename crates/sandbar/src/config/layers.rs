//! Values from file, environment and flags, each with its origin.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use sandbar_core::{Error, Result};
use toml::{Table, Value};

use super::keys::nearest;
use crate::env_vars;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    File(PathBuf),
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "`{}`", path.display()),
            Self::Variable(name) => write!(f, "the variable {name}"),
            Self::Flag(name) => write!(f, "the flag --{name}"),
        }
    }
}

/// One value with its origin.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) origin: Origin,
    pub(crate) value: Value,
    /// Text of a variable that parsed as TOML but may be plain text: `pool_name` may be `42`.
    pub(crate) text: Option<String>,
}

/// Settings by key; later layers override earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    settings: BTreeMap<String, Setting>,
    /// `SANDBAR_*` variables that match no key, each with the nearest one.
    pub(crate) unknown_variables: Vec<(String, Option<String>)>,
}

impl Layers {
    pub(crate) fn into_settings(self) -> BTreeMap<String, Setting> {
        self.settings
    }

    /// Adds the keys of a TOML file, which must exist.
    pub(crate) fn add_file(&mut self, path: &Path, known: &[&str]) -> Result<()> {
        let text = fs::read_to_string(path).map_err(|error| {
            Error::io(
                format!("could not read the configuration `{}`", path.display()),
                error,
            )
            .with_field("config")
            .with_hint("give --config the path of a TOML file, or leave it out for the defaults")
        })?;
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| {
                text[..span.start.min(text.len())].matches('\n').count() + 1
            });
            Error::invalid(
                "config",
                format!("`{}` line {line} is not TOML", path.display()),
            )
            .with_source(error.message().to_owned())
            .with_hint("correct that line; a setting looks like `max_sessions = 50`")
        })?;
        for (key, value) in table {
            if !known.contains(&key.as_str()) {
                return Err(unknown_key(&Origin::File(path.to_owned()), &key, known));
            }
            self.settings.insert(
                key,
                Setting {
                    origin: Origin::File(path.to_owned()),
                    value,
                    text: None,
                },
            );
        }
        Ok(())
    }

    /// Adds every `SANDBAR_<KEY>` variable that names a key.
    pub(crate) fn add_variables(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
        known: &[&str],
    ) {
        for (name, text) in variables {
            let Some(key) = name
                .strip_prefix(env_vars::PREFIX)
                .map(str::to_ascii_lowercase)
            else {
                continue;
            };
            if text.is_empty() || env_vars::NOT_KEYS.contains(&name.as_str()) {
                continue;
            }
            if !known.contains(&key.as_str()) {
                let meant = nearest(&key, known.iter().copied())
                    .map(|key| format!("{}{}", env_vars::PREFIX, key.to_ascii_uppercase()));
                self.unknown_variables.push((name, meant));
                continue;
            }
            let value = format!("value = {text}")
                .parse::<Table>()
                .ok()
                .filter(|table| table.len() == 1)
                .and_then(|mut table| table.remove("value"))
                .unwrap_or_else(|| Value::String(text.clone()));
            self.settings.insert(
                key,
                Setting {
                    origin: Origin::Variable(name),
                    value,
                    text: Some(text),
                },
            );
        }
    }

    /// Adds a flag of the command line.
    pub(crate) fn add_flag(
        &mut self,
        flag: &'static str,
        key: &str,
        value: Option<impl Into<Value>>,
    ) {
        if let Some(value) = value {
            let setting = Setting {
                origin: Origin::Flag(flag),
                value: value.into(),
                text: None,
            };
            self.settings.insert(key.to_owned(), setting);
        }
    }
}

/// Returns the error for an unknown key, with the nearest key as a hint.
pub(crate) fn unknown_key(origin: &Origin, key: &str, known: &[&str]) -> Error {
    let hint = match nearest(key, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the keys are {}", known.join(", ")),
    };
    Error::invalid(
        "config",
        format!(
            "`{}` in {origin} is not a key of the configuration",
            key.escape_debug()
        ),
    )
    .with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["max_sessions", "pool_name", "default_resources"];

    fn file(content: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sandbar.toml");
        fs::write(&path, content).unwrap();
        (directory, path)
    }

    #[test]
    fn flags_override_variables_and_variables_the_file() {
        let (_guard, path) = file("max_sessions = 1\npool_name = \"tank\"\n");
        let mut layers = Layers::default();
        layers.add_file(&path, &KNOWN).unwrap();
        layers.add_variables(
            [("SANDBAR_MAX_SESSIONS".to_owned(), "2".to_owned())],
            &KNOWN,
        );
        layers.add_flag("max-sessions", "max_sessions", Some(3));
        layers.add_flag("pool", "pool_name", None::<String>);
        let settings = layers.into_settings();
        assert_eq!(settings["max_sessions"].value, Value::Integer(3));
        assert_eq!(settings["pool_name"].origin, Origin::File(path));
    }

    #[test]
    fn unknown_key_is_refused_with_the_nearest_one() {
        let (_guard, path) = file("max_session = 1\n");
        let error = Layers::default().add_file(&path, &KNOWN).unwrap_err();
        assert_eq!(error.hint(), Some("did you mean `max_sessions`?"));
    }

    #[test]
    fn broken_file_is_refused_with_its_line() {
        let (_guard, path) = file("max_sessions = 1\npool_name = = 2\n");
        let error = Layers::default().add_file(&path, &KNOWN).unwrap_err();
        assert!(error.message().contains("line 2"), "{error}");
    }

    #[test]
    fn variable_may_hold_a_number_a_table_or_text() {
        let variables = [
            ("SANDBAR_MAX_SESSIONS", "7"),
            ("SANDBAR_POOL_NAME", "tank"),
            ("SANDBAR_DEFAULT_RESOURCES", "{ pids = 5 }"),
            ("SANDBAR_URL", "http://127.0.0.1:1"),
            ("SANDBAR_MAX_SESIONS", "9"),
            ("HOME", "/root"),
        ];
        let mut layers = Layers::default();
        layers.add_variables(
            variables.map(|(name, text)| (name.to_owned(), text.to_owned())),
            &KNOWN,
        );
        assert_eq!(
            layers.unknown_variables,
            [(
                "SANDBAR_MAX_SESIONS".to_owned(),
                Some("SANDBAR_MAX_SESSIONS".to_owned())
            )]
        );
        let settings = layers.into_settings();
        assert_eq!(settings["max_sessions"].value, Value::Integer(7));
        assert_eq!(
            settings["pool_name"].value,
            Value::String("tank".to_owned())
        );
        assert_eq!(
            settings["default_resources"].value["pids"],
            Value::Integer(5)
        );
    }
}
