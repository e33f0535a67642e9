//! The effective configuration: every key with its checked value.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use sandbar_core::{Error, Resources, Result};
use sandbar_host::{HostConfig, refuse_lent};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{
    keys::field_names,
    layers::{Layers, Origin, Setting, unknown_key},
    server::ServerConfig,
};
use crate::{env_vars, local_host::discovery};

/// Configuration of the server and the host, with the origins of its values.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) server: ServerConfig,
    pub(crate) host: HostConfig,
    /// Origins of the keys that were set.
    pub(crate) origins: BTreeMap<String, Origin>,
    /// `SANDBAR_*` variables that match no key, each with the nearest one.
    pub(crate) unknown_variables: Vec<(String, Option<String>)>,
}

impl Settings {
    /// Returns all keys.
    pub(crate) fn known_keys() -> Vec<&'static str> {
        let mut known = field_names::<ServerConfig>().to_vec();
        known.extend(field_names::<HostConfig>());
        known
    }

    /// Reads the file and the environment, then adds the flags.
    pub(crate) fn load(file: Option<&Path>, flags: impl FnOnce(&mut Layers)) -> Result<Self> {
        let known = Self::known_keys();
        let mut layers = Layers::default();
        let from_variable = std::env::var_os(env_vars::CONFIG)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        if let Some(path) = file.map(Path::to_owned).or(from_variable) {
            refuse_lent("config", "configuration", &path, "move it")?;
            layers.add_file(&path, &known)?;
        }
        layers.add_variables(readable_variables(), &known);
        flags(&mut layers);
        Self::from_layers(layers)
    }

    /// Returns every key that has a value, with that value.
    pub(crate) fn values(&self) -> Result<Table> {
        let table = |value: Result<Value, toml::ser::Error>| match value {
            Ok(Value::Table(table)) => Ok(table),
            Ok(_) => Ok(Table::new()),
            Err(error) => {
                Err(Error::internal("could not serialize the configuration").with_source(error))
            }
        };
        let mut values = table(Value::try_from(&self.server))?;
        values.extend(table(Value::try_from(&self.host))?);
        Ok(values)
    }

    fn from_layers(mut layers: Layers) -> Result<Self> {
        let unknown_variables = std::mem::take(&mut layers.unknown_variables);
        let server_keys = field_names::<ServerConfig>();
        let (mut server, mut host, mut origins) = (Table::new(), Table::new(), BTreeMap::new());
        for (key, setting) in layers.into_settings() {
            let value = if server_keys.contains(&key.as_str()) {
                checked::<ServerConfig>(&key, &setting)?
            } else {
                check_nested(&key, &setting)?;
                checked::<HostConfig>(&key, &setting)?
            };
            let table = if server_keys.contains(&key.as_str()) {
                &mut server
            } else {
                &mut host
            };
            table.insert(key.clone(), value);
            origins.insert(key, setting.origin);
        }
        let mut host: HostConfig = decode(host).map_err(|error| whole(&error))?;
        if !origins.contains_key("data_dir") {
            host.data_dir = discovery::default_data_dir();
        }
        host.data_dir = std::path::absolute(&host.data_dir).map_err(|error| {
            Error::io("could not make the data directory absolute", error)
                .with_hint("give --data-dir an absolute path")
        })?;
        host.validate()?;
        let server: ServerConfig = decode(server).map_err(|error| whole(&error))?;
        server.validate()?;
        server.validate_names(&host.ingress_domain)?;
        Ok(Self {
            server,
            host,
            origins,
            unknown_variables,
        })
    }
}

fn whole(error: &toml::de::Error) -> Error {
    Error::invalid("config", "configuration is inconsistent")
        .with_source(error.message().to_owned())
}

fn decode<T: DeserializeOwned>(table: Table) -> Result<T, toml::de::Error> {
    T::deserialize(Value::Table(table))
}

/// Checks one value against the type of its key. The text of a variable is also tried as a string.
fn checked<T: DeserializeOwned>(key: &str, setting: &Setting) -> Result<Value> {
    let attempt = |value: &Value| decode::<T>(Table::from_iter([(key.to_owned(), value.clone())]));
    let Err(first) = attempt(&setting.value) else {
        return Ok(setting.value.clone());
    };
    if let Some(text) = &setting.text {
        let value = Value::String(text.clone());
        if attempt(&value).is_ok() {
            return Ok(value);
        }
    }
    // The second line of the parser's text repeats the key.
    let why = first
        .message()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    Err(Error::invalid(
        "config",
        format!("`{key}` in {} has an invalid value", setting.origin),
    )
    .with_source(why)
    .with_hint("`sandbar up --help` lists the keys and their values"))
}

/// Checks the keys of nested tables.
fn check_nested(key: &str, setting: &Setting) -> Result<()> {
    let (Some(table), "default_resources") = (setting.value.as_table(), key) else {
        return Ok(());
    };
    let known = field_names::<Resources>();
    match table
        .keys()
        .find(|nested| !known.contains(&nested.as_str()))
    {
        Some(unknown) => Err(unknown_key(&setting.origin, unknown, known)),
        None => Ok(()),
    }
}

/// Returns the environment variables that are UTF-8.
fn readable_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
}

#[cfg(test)]
mod tests {
    use sandbar_core::ErrorCode;

    use super::*;

    fn with_flag(key: &'static str, value: impl Into<Value>) -> Result<Settings> {
        let mut layers = Layers::default();
        layers.add_flag("flag", key, Some(value));
        Settings::from_layers(layers)
    }

    fn with_flags(keys: &[(&str, &str)]) -> Result<Settings> {
        let mut layers = Layers::default();
        for (key, value) in keys {
            layers.add_flag("flag", key, Some(*value));
        }
        Settings::from_layers(layers)
    }

    #[test]
    fn without_settings_the_defaults_apply() {
        let settings = Settings::from_layers(Layers::default()).unwrap();
        assert_eq!(settings.server.listen.to_string(), "127.0.0.1:9100");
        assert!(!settings.server.insecure);
        assert!(settings.origins.is_empty());
    }

    #[test]
    fn files_below_directories_shown_to_sandboxes_are_refused() {
        let flags = [
            ("tls_cert_file", "/etc/ssl/cert.pem"),
            ("tls_key_file", "/opt/app/tls.key"),
        ];
        let error = with_flags(&flags).unwrap_err();
        assert_eq!(error.field(), Some("tls_key_file"));
        assert!(
            error
                .message()
                .contains("`/opt/app/tls.key` is below `/opt`"),
            "{error}"
        );
        let error =
            Settings::load(Some(Path::new("/usr/local/etc/sandbar.toml")), |_| {}).unwrap_err();
        assert!(error.message().contains("is below `/usr`"), "{error}");
    }

    #[test]
    fn inconsistent_tls_keys_are_refused() {
        let with = |keys: &[_]| with_flags(keys).map(|settings| settings.server.speaks_tls());
        let (cert, key, ca) = (
            ("tls_cert_file", "c"),
            ("tls_key_file", "k"),
            ("tls_client_ca_file", "a"),
        );
        assert!(!with(&[]).unwrap());
        for good in [
            &[("tls", "auto")][..],
            &[cert, key],
            &[cert, key, ca],
            &[("tls", "auto"), ca],
        ] {
            assert!(with(good).unwrap(), "{good:?}");
        }
        for (bad, field) in [
            (&[cert][..], "tls_key_file"),
            (&[key], "tls_cert_file"),
            (&[cert, key, ("tls", "auto")], "tls"),
            (&[ca], "tls_client_ca_file"),
        ] {
            assert_eq!(with(bad).unwrap_err().field(), Some(field), "{bad:?}");
        }
        assert!(with(&[("tls", "sometimes")]).is_err());
    }

    #[test]
    fn name_server_needs_a_domain_and_a_reachable_host() {
        let here = [
            ("ingress_domain", "sbx.test"),
            ("dns_listen", "127.0.0.1:0"),
        ];
        assert!(with_flags(&here).unwrap().server.dns_listen.is_some());
        let everywhere = [("ingress_domain", "sbx.test"), ("dns_listen", "0.0.0.0:53")];
        assert!(with_flags(&[&everywhere[..], &[("listen", "0.0.0.0:9100")]].concat()).is_ok());
        for bad in [&here[1..], &everywhere] {
            assert_eq!(
                with_flags(bad).unwrap_err().field(),
                Some("dns_listen"),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn documented_keys_are_known() {
        let known = Settings::known_keys();
        for key in [
            "listen",
            "data_dir",
            "storage_backend",
            "container_runtime",
            "max_sessions",
            "default_resources",
        ] {
            assert!(known.contains(&key), "{key} is missing from {known:?}");
        }
    }

    #[test]
    fn value_of_the_wrong_type_names_key_and_origin() {
        let error = with_flag("max_sessions", "many").unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(
            error
                .message()
                .contains("`max_sessions` in the flag --flag"),
            "{error}"
        );
    }

    #[test]
    fn zero_slow_reader_timeout_is_refused() {
        assert_eq!(
            with_flag("slow_reader_timeout", "30s")
                .unwrap()
                .server
                .slow_reader_timeout
                .as_secs(),
            30
        );
        assert_eq!(
            with_flag("slow_reader_timeout", "0s").unwrap_err().field(),
            Some("slow_reader_timeout")
        );
    }

    #[test]
    fn number_in_a_variable_may_be_text() {
        let mut layers = Layers::default();
        layers.add_variables(
            [("SANDBAR_POOL_NAME".to_owned(), "42".to_owned())],
            &Settings::known_keys(),
        );
        let settings = Settings::from_layers(layers).unwrap();
        assert_eq!(settings.host.pool_name.as_deref(), Some("42"));
    }

    #[test]
    fn unknown_nested_key_is_refused_with_the_nearest_one() {
        let table = Table::from_iter([("pid".to_owned(), Value::Integer(5))]);
        let error = with_flag("default_resources", table).unwrap_err();
        assert_eq!(error.hint(), Some("did you mean `pids`?"));
    }
}
