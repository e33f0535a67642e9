//! The effective configuration: every key with its value, checked.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use sandbar_core::{DomainName, Error, Resources, Result, duration_text};
use sandbar_host::{HostConfig, refuse_lent};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use toml::{Table, Value};

use super::{
    keys::field_names,
    layers::{Layers, Origin, Setting, unknown_key},
};
use crate::{env_vars, local_files};

/// What the server itself is told; the host knows nothing of the network.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerConfig {
    /// Where to listen. Port 0 takes any free one.
    pub(crate) listen: SocketAddr,
    /// Listen beyond this machine without TLS.
    pub(crate) insecure: bool,
    /// How long the reader of a stream may take nothing before the stream is ended.
    #[serde(with = "duration_text")]
    pub(crate) slow_reader_timeout: Duration,
    /// Calls one access token may have under way; 0 is any number.
    pub(crate) max_calls_per_token: usize,
    /// How long a unary call without a deadline of its own may take; `0s` is any time.
    #[serde(with = "duration_text")]
    pub(crate) request_timeout: Duration,
    /// Speak TLS with certificates of this machine's own authority.
    pub(crate) tls: TlsMode,
    /// Speak TLS with this certificate, PEM; those between it and its authority follow it.
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The key of that certificate, PEM.
    pub(crate) tls_key_file: Option<PathBuf>,
    /// Let in only who has a certificate of one of these authorities, PEM.
    pub(crate) tls_client_ca_file: Option<PathBuf>,
    /// Where to answer for the names below the host's domain. Port 0 takes any free one.
    pub(crate) dns_listen: Option<SocketAddr>,
}

/// Whether the port speaks TLS with certificates of its own making.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TlsMode {
    #[default]
    Off,
    /// With an authority of this machine's own.
    Auto,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9100),
            insecure: false,
            max_calls_per_token: sandbar_server::ServerConfig::MAX_CALLS_PER_TOKEN,
            request_timeout: sandbar_server::ServerConfig::REQUEST_TIMEOUT,
            tls: TlsMode::Off,
            tls_cert_file: None,
            tls_key_file: None,
            tls_client_ca_file: None,
            dns_listen: None,
            slow_reader_timeout: sandbar_server::ServerConfig::SLOW_READER_TIMEOUT,
        }
    }
}

impl ServerConfig {
    /// Whether the port speaks TLS.
    pub(crate) fn speaks_tls(&self) -> bool {
        self.tls == TlsMode::Auto || self.tls_cert_file.is_some()
    }

    /// What no type can say about a key, alone or beside others.
    fn validate(&self) -> Result<()> {
        if let Some(path) = &self.tls_key_file {
            refuse_lent("tls_key_file", "TLS key", path, "move it")?;
        }
        let refuse = |key: &'static str, message: &str, hint: &str| Err(Error::invalid(key, message).with_hint(hint));
        if self.slow_reader_timeout.is_zero() {
            return refuse("slow_reader_timeout", "no reader takes anything in no time", "leave it out for `5m`");
        }
        match (&self.tls_cert_file, &self.tls_key_file) {
            (Some(_), None) => {
                return refuse("tls_key_file", "there is a certificate and no key", "give --tls-key as well");
            }
            (None, Some(_)) => {
                return refuse("tls_cert_file", "there is a key and no certificate", "give --tls-cert as well");
            }
            (Some(_), Some(_)) if self.tls == TlsMode::Auto => {
                return refuse(
                    "tls",
                    "`tls = \"auto\"` makes certificates, and there is one already",
                    "leave out --tls auto, or --tls-cert and --tls-key",
                );
            }
            _ => {}
        }
        if self.tls_client_ca_file.is_some() && !self.speaks_tls() {
            return refuse(
                "tls_client_ca_file",
                "clients cannot show certificates without TLS",
                "give --tls auto, or --tls-cert and --tls-key",
            );
        }
        Ok(())
    }

    /// What must be so for the name server to be of use.
    fn validate_names(&self, domain: &DomainName) -> Result<()> {
        let Some(address) = self.dns_listen else { return Ok(()) };
        if *domain == DomainName::localhost() {
            return Err(Error::invalid("dns_listen", "nobody asks a name server for `localhost`")
                .with_hint("give --domain a name of your own, for example sbx.test"));
        }
        if self.listen.ip().is_loopback() && !address.ip().is_loopback() {
            return Err(Error::invalid(
                "dns_listen",
                format!("{address} can be asked by others, and would lead them to {}", self.listen.ip()),
            )
            .with_hint("answer on 127.0.0.1, or give --listen an address that others reach as well"));
        }
        Ok(())
    }
}

/// Everything `up` and `doctor` go by.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) server: ServerConfig,
    pub(crate) host: HostConfig,
    /// Where the keys that are not defaults came from.
    pub(crate) origins: BTreeMap<String, Origin>,
    /// `SANDBAR_*` variables that are no key, each with the key that may have been meant.
    pub(crate) unknown_variables: Vec<(String, Option<String>)>,
}

impl Settings {
    /// Every key there is.
    pub(crate) fn known_keys() -> Vec<&'static str> {
        let mut known = field_names::<ServerConfig>().to_vec();
        known.extend(field_names::<HostConfig>());
        known
    }

    /// Reads the file and the environment, then lays `flags` over them.
    pub(crate) fn load(file: Option<&Path>, flags: impl FnOnce(&mut Layers)) -> Result<Self> {
        let known = Self::known_keys();
        let mut layers = Layers::default();
        let from_variable = std::env::var_os(env_vars::CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from);
        if let Some(path) = file.map(Path::to_owned).or(from_variable) {
            refuse_lent("config", "configuration", &path, "move it")?;
            layers.add_file(&path, &known)?;
        }
        layers.add_variables(readable_variables(), &known);
        flags(&mut layers);
        Self::from_layers(layers)
    }

    /// Every key that has a value, with that value.
    pub(crate) fn values(&self) -> Result<Table> {
        let table = |value: Result<Value, toml::ser::Error>| match value {
            Ok(Value::Table(table)) => Ok(table),
            Ok(_) => Ok(Table::new()),
            Err(error) => Err(Error::internal("could not show the configuration").with_source(error)),
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
            let table = if server_keys.contains(&key.as_str()) { &mut server } else { &mut host };
            table.insert(key.clone(), value);
            origins.insert(key, setting.origin);
        }
        let mut host: HostConfig = decode(host).map_err(|error| whole(&error))?;
        if !origins.contains_key("data_dir") {
            host.data_dir = local_files::default_data_dir();
        }
        host.data_dir = std::path::absolute(&host.data_dir).map_err(|error| {
            Error::io("could not tell where the data directory is", error).with_hint("give --data-dir an absolute path")
        })?;
        host.validate()?;
        let server: ServerConfig = decode(server).map_err(|error| whole(&error))?;
        server.validate()?;
        server.validate_names(&host.ingress_domain)?;
        Ok(Self { server, host, origins, unknown_variables })
    }
}

fn whole(error: &toml::de::Error) -> Error {
    Error::invalid("config", "the configuration does not fit together").with_source(error.message().to_owned())
}

fn decode<T: DeserializeOwned>(table: Table) -> Result<T, toml::de::Error> {
    T::deserialize(Value::Table(table))
}

/// The value of one key, in the form its type takes. A variable's text is also tried as plain text.
fn checked<T: DeserializeOwned>(key: &str, setting: &Setting) -> Result<Value> {
    let attempt = |value: &Value| decode::<T>(Table::from_iter([(key.to_owned(), value.clone())]));
    let Err(first) = attempt(&setting.value) else { return Ok(setting.value.clone()) };
    if let Some(text) = &setting.text {
        let value = Value::String(text.clone());
        if attempt(&value).is_ok() {
            return Ok(value);
        }
    }
    // The parser's own text ends in "in `key`", which we have said already.
    let why = first.message().lines().next().unwrap_or_default().to_owned();
    Err(Error::invalid("config", format!("`{key}` in {} has an unusable value", setting.origin))
        .with_source(why)
        .with_hint("the keys and their values are listed by `sandbar up --help`"))
}

/// Tables inside the configuration have keys of their own.
fn check_nested(key: &str, setting: &Setting) -> Result<()> {
    let (Some(table), "default_resources") = (setting.value.as_table(), key) else { return Ok(()) };
    let known = field_names::<Resources>();
    match table.keys().find(|nested| !known.contains(&nested.as_str())) {
        Some(unknown) => Err(unknown_key(&setting.origin, unknown, known)),
        None => Ok(()),
    }
}

/// The environment without what is not text.
fn readable_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
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
    fn nothing_given_is_the_documented_defaults() {
        let settings = Settings::from_layers(Layers::default()).unwrap();
        assert_eq!(settings.server.listen.to_string(), "127.0.0.1:9100");
        assert!(!settings.server.insecure);
        assert!(settings.origins.is_empty());
    }

    #[test]
    fn configuration_and_key_below_lent_directories_are_refused() {
        let flags = [("tls_cert_file", "/etc/ssl/cert.pem"), ("tls_key_file", "/opt/app/tls.key")];
        let error = with_flags(&flags).unwrap_err();
        assert_eq!(error.field(), Some("tls_key_file"));
        assert!(error.message().contains("`/opt/app/tls.key` is below `/opt`"), "{error}");
        let error = Settings::load(Some(Path::new("/usr/local/etc/sandbar.toml")), |_| {}).unwrap_err();
        assert!(error.message().contains("is below `/usr`"), "{error}");
    }

    #[test]
    fn keys_of_tls_that_do_not_fit_together_are_refused() {
        let with = |keys: &[_]| with_flags(keys).map(|settings| settings.server.speaks_tls());
        let (cert, key, ca) = (("tls_cert_file", "c"), ("tls_key_file", "k"), ("tls_client_ca_file", "a"));
        assert!(!with(&[]).unwrap());
        for good in [&[("tls", "auto")][..], &[cert, key], &[cert, key, ca], &[("tls", "auto"), ca]] {
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
    fn a_name_server_needs_a_domain_and_never_leads_others_to_their_own_machine() {
        let here = [("ingress_domain", "sbx.test"), ("dns_listen", "127.0.0.1:0")];
        assert!(with_flags(&here).unwrap().server.dns_listen.is_some());
        let everywhere = [("ingress_domain", "sbx.test"), ("dns_listen", "0.0.0.0:53")];
        assert!(with_flags(&[&everywhere[..], &[("listen", "0.0.0.0:9100")]].concat()).is_ok());
        for bad in [&here[1..], &everywhere] {
            assert_eq!(with_flags(bad).unwrap_err().field(), Some("dns_listen"), "{bad:?}");
        }
    }

    #[test]
    fn every_documented_key_is_known() {
        let known = Settings::known_keys();
        for key in ["listen", "data_dir", "storage_backend", "container_runtime", "max_sessions", "default_resources"] {
            assert!(known.contains(&key), "{key} is missing from {known:?}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_kind_names_the_key_and_where_it_came_from() {
        let error = with_flag("max_sessions", "many").unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains("`max_sessions` in the flag --flag"), "{error}");
    }

    #[test]
    fn readers_of_streams_are_given_some_time() {
        assert_eq!(with_flag("slow_reader_timeout", "30s").unwrap().server.slow_reader_timeout.as_secs(), 30);
        assert_eq!(with_flag("slow_reader_timeout", "0s").unwrap_err().field(), Some("slow_reader_timeout"));
    }

    #[test]
    fn a_number_in_a_variable_can_be_meant_as_text() {
        let mut layers = Layers::default();
        layers.add_variables([("SANDBAR_POOL_NAME".to_owned(), "42".to_owned())], &Settings::known_keys());
        let settings = Settings::from_layers(layers).unwrap();
        assert_eq!(settings.host.pool_name.as_deref(), Some("42"));
    }

    #[test]
    fn an_unknown_key_in_a_nested_table_is_refused_with_the_nearest_one() {
        let table = Table::from_iter([("pid".to_owned(), Value::Integer(5))]);
        let error = with_flag("default_resources", table).unwrap_err();
        assert_eq!(error.hint(), Some("did you mean `pids`?"));
    }
}
