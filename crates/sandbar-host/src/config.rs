//! What a host is told. Every key has a default that works.

use std::{
    fmt,
    fs::File,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use sandbar_core::{
    ByteCount, DomainName, Error, Resources, Result, RuntimeKind, SnapshotName, StorageKind, duration_text,
};
use sandbar_storage::{StorageConfig, ZfsConfig, lent_directory_of, pack::Target};
use serde::{Deserialize, Serialize};

use crate::object_store;

/// The configuration of a host. Unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// Host part of the addresses exposed ports are given out with.
    pub advertise_addr: String,
    /// Ports of sessions are reached by the name `<port>-<session>.<ingress_domain>` on the API's own port.
    pub ingress_domain: DomainName,
    /// Where the state database lies, and the storage unless `sessions_root_dir` says otherwise.
    pub data_dir: PathBuf,
    pub storage_backend: StorageChoice,
    pub container_runtime: RuntimeChoice,
    /// ZFS: the pool.
    pub pool_name: Option<String>,
    /// ZFS: the dataset bases lie in; `<pool>/bases` when absent.
    pub bases_dataset: Option<String>,
    /// ZFS: the dataset sessions lie in; `<pool>/sessions` when absent.
    pub sessions_dataset: Option<String>,
    /// Root of btrfs and local-disk; `<data_dir>/storage` when absent.
    pub sessions_root_dir: Option<PathBuf>,
    /// The largest a pool image of our own may become; absent takes four fifths of the disk.
    pub pool_image_limit: Option<ByteCount>,
    /// Sessions in all states; 0 is no limit.
    pub max_sessions: usize,
    /// Quota of sessions that ask for none; 0 is none.
    pub default_session_quota: ByteCount,
    /// Prefix of turn snapshots.
    pub snapshot_prefix: String,
    /// Turn and tool snapshots beyond this are pruned, oldest first; 0 is no limit.
    pub max_snapshots_per_session: usize,
    /// As many of them are left to a session when the pool is nearly full, however many are allowed otherwise.
    pub pressure_snapshots_per_session: usize,
    /// Limits where neither session nor call says anything.
    pub default_resources: Resources,
    /// The longest a tool call may take.
    #[serde(with = "duration_text")]
    pub tool_timeout: Duration,
    /// Take a snapshot after every tool call that succeeds.
    pub per_tool_snapshots: bool,
    /// Share of the pool that is taken when the host says it is degraded.
    pub pool_space_warn_threshold: f64,
    /// Share of the pool that is taken when the host refuses new sessions.
    pub pool_space_crit_threshold: f64,
    /// How often expired sessions are looked for and failed deletions are tried again.
    #[serde(with = "duration_text")]
    pub health_check_interval: Duration,
    /// Start the box of a session when the session is made, and not when something first runs in it.
    pub start_boxes_at_once: bool,
    /// How long pause, rollback and destroy wait for tools that are under way.
    #[serde(with = "duration_text")]
    pub pause_drain_timeout: Duration,
    /// Sessions that ask for nothing else are paused when nobody used them for so long; zero is never.
    #[serde(with = "duration_text")]
    pub default_idle_timeout: Duration,
    /// Where hibernated sessions are kept: an absolute directory, or `s3://bucket?region=..&endpoint=..&allow_http=true`
    /// with keys from the environment; `<data_dir>/packs` when absent.
    pub object_store: Option<String>,
    /// Servers the gateway asks for names, `ip` or `ip:port`; those of `/etc/resolv.conf` when empty.
    pub dns_servers: Vec<DnsServer>,
    /// Certificates in PEM that the gateway trusts servers by, beside the system's.
    pub egress_ca_file: Option<PathBuf>,
    /// How long the audit log of a destroyed session is kept; zero is for ever.
    #[serde(with = "duration_text")]
    pub audit_retention: Duration,
    /// How long a stopping host waits for what is under way.
    #[serde(with = "duration_text")]
    pub shutdown_timeout: Duration,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            advertise_addr: "127.0.0.1".into(),
            ingress_domain: DomainName::localhost(),
            data_dir: PathBuf::from("/var/lib/sandbar"),
            storage_backend: StorageChoice::Auto,
            container_runtime: RuntimeChoice::Auto,
            pool_name: None,
            bases_dataset: None,
            sessions_dataset: None,
            sessions_root_dir: None,
            pool_image_limit: None,
            max_sessions: 0,
            default_session_quota: ByteCount(0),
            snapshot_prefix: "turn".into(),
            max_snapshots_per_session: 0,
            pressure_snapshots_per_session: 10,
            default_resources: Resources { pids: Some(1024), output: Some(ByteCount::mib(10)), ..Resources::default() },
            tool_timeout: Duration::from_mins(5),
            per_tool_snapshots: false,
            pool_space_warn_threshold: 0.85,
            pool_space_crit_threshold: 0.95,
            health_check_interval: Duration::from_secs(30),
            start_boxes_at_once: false,
            pause_drain_timeout: Duration::from_secs(30),
            default_idle_timeout: Duration::ZERO,
            object_store: None,
            dns_servers: Vec::new(),
            egress_ca_file: None,
            audit_retention: Duration::from_hours(30 * 24),
            shutdown_timeout: Duration::from_secs(30),
        }
    }
}

impl HostConfig {
    /// Checks what the types alone cannot.
    pub fn validate(&self) -> Result<()> {
        // The longest turn number has twenty digits.
        SnapshotName::new(format!("{}-{}", self.snapshot_prefix, u64::MAX)).map_err(|error| {
            Error::invalid("snapshot_prefix", format!("snapshot prefix `{}` is not usable", self.snapshot_prefix))
                .with_hint("start with a letter or digit, then letters, digits, `.`, `_` or `-`")
                .with_source(error)
        })?;
        let (warn, critical) = (self.pool_space_warn_threshold, self.pool_space_crit_threshold);
        if !(0.0..=1.0).contains(&warn) || !(0.0..=1.0).contains(&critical) || warn > critical {
            return Err(Error::invalid(
                "pool_space_crit_threshold",
                format!("the space thresholds {warn} and {critical} do not fit together"),
            )
            .with_hint("use shares between 0 and 1, the warning not above the critical one"));
        }
        if self.health_check_interval.is_zero() {
            return Err(Error::invalid("health_check_interval", "the interval is zero").with_hint("use `30s`"));
        }
        if self.tool_timeout.is_zero() {
            return Err(Error::invalid("tool_timeout", "the time of a tool call is zero").with_hint("use `5m`"));
        }
        if self.advertise_addr.is_empty() || self.advertise_addr.contains(char::is_whitespace) {
            return Err(Error::invalid("advertise_addr", format!("`{}` is no address", self.advertise_addr))
                .with_hint("give a host name or an IP address clients reach this machine at"));
        }
        refuse_lent("data_dir", "data directory", &self.data_dir, "choose another with `--data-dir`")?;
        if let Some(path) = &self.sessions_root_dir {
            refuse_lent("sessions_root_dir", "storage directory", path, "set `sessions_root_dir` to another")?;
        }
        if let Target::Directory(path) = self.object_store_target()? {
            refuse_lent("object_store", "object store", &path, "set `object_store` to another directory")?;
        }
        if let Some(path) = &self.egress_ca_file {
            let usable = if path.is_absolute() {
                File::open(path).map(drop)
            } else {
                Err(std::io::ErrorKind::InvalidInput.into())
            };
            usable.map_err(|error| {
                Error::invalid("egress_ca_file", format!("`{}` cannot be read", path.display()))
                    .with_hint("give the absolute path of a file with certificates in PEM, or leave it out")
                    .with_source(error)
            })?;
        }
        self.default_resources.validate()
    }

    /// Where hibernated sessions are kept.
    pub fn object_store_target(&self) -> Result<Target> {
        match &self.object_store {
            None => Ok(Target::Directory(self.data_dir.join("packs"))),
            Some(text) => object_store::parse(text),
        }
    }

    /// The idle time of sessions that ask for none.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        Some(self.default_idle_timeout).filter(|idle| !idle.is_zero())
    }

    /// What the storage is told.
    pub fn storage(&self) -> StorageConfig {
        let choice = match self.storage_backend {
            StorageChoice::Auto => None,
            StorageChoice::Named(kind) => Some(kind),
        };
        StorageConfig {
            choice,
            directory: self.sessions_root_dir.clone().unwrap_or_else(|| self.data_dir.join("storage")),
            zfs: self.zfs(),
            pool_image_limit: self.pool_image_limit,
        }
    }

    /// The ZFS names, when a pool is named.
    pub fn zfs(&self) -> Option<ZfsConfig> {
        Some(ZfsConfig {
            pool: self.pool_name.clone()?,
            bases_dataset: self.bases_dataset.clone(),
            sessions_dataset: self.sessions_dataset.clone(),
        })
    }
}

/// Refuses a path of the host's own below a directory that sandboxes over the base `host` are shown.
pub fn refuse_lent(field: &'static str, what: &str, path: &Path, fix: &str) -> Result<()> {
    let Some(lent) = lent_directory_of(path) else { return Ok(()) };
    Err(Error::invalid(
        field,
        format!(
            "{what} `{}` is below `{}`, which sandboxes over the base `host` are shown",
            path.display(),
            lent.display()
        ),
    )
    .with_hint(format!("{fix}, for example below `/var/lib` or `/etc`")))
}

/// A server that is asked for names: `192.0.2.53` or `192.0.2.53:5353`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DnsServer(SocketAddr);

impl DnsServer {
    const PORT: u16 = 53;
}

impl From<DnsServer> for SocketAddr {
    fn from(server: DnsServer) -> Self {
        server.0
    }
}

impl FromStr for DnsServer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, Self::PORT));
        match text.parse::<SocketAddr>().or_else(|_| plain()) {
            Ok(address) if address.port() != 0 && !address.ip().is_unspecified() => Ok(Self(address)),
            _ => Err(Error::invalid("dns_servers", format!("`{}` is no DNS server", text.escape_debug())).with_hint(
                "write an address, with or without a port: `192.0.2.53`, `192.0.2.53:5353`, `[2001:db8::53]:53`",
            )),
        }
    }
}

impl fmt::Display for DnsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An address alone has no place for the interface it is on.
        let has_interface = matches!(self.0, SocketAddr::V6(address) if address.scope_id() != 0);
        if self.0.port() == Self::PORT && !has_interface { self.0.ip().fmt(f) } else { self.0.fmt(f) }
    }
}

impl TryFrom<String> for DnsServer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error: Error| explained(&error))
    }
}

impl From<DnsServer> for String {
    fn from(server: DnsServer) -> String {
        server.to_string()
    }
}

/// An error with its hint, for whoever reads a configuration.
fn explained(error: &Error) -> String {
    error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}"))
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $kind:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum $name {
            /// The host chooses, and says what and why.
            #[default]
            Auto,
            /// This one, or an error that says what is missing.
            Named($kind),
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Named) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse().map_err(|error: Error| explained(&error))
            }
        }

        impl From<$name> for String {
            fn from(choice: $name) -> String {
                match choice {
                    $name::Auto => "auto".into(),
                    $name::Named(kind) => kind.as_str().into(),
                }
            }
        }
    };
}

choice!(
    /// Which storage to use.
    StorageChoice,
    StorageKind
);
choice!(
    /// Which runtime to use.
    RuntimeChoice,
    RuntimeKind
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_survive_a_round_trip() {
        let config = HostConfig::default();
        config.validate().unwrap();
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<HostConfig>(&json).unwrap(), config);
    }

    #[test]
    fn paths_below_lent_directories_are_refused_and_both_named() {
        let bad = [
            (HostConfig { data_dir: "/opt/sandbar".into(), ..HostConfig::default() }, "data_dir"),
            (HostConfig { data_dir: "/usr/local/var/../sandbar".into(), ..HostConfig::default() }, "data_dir"),
            (HostConfig { sessions_root_dir: Some("/usr/lib/x".into()), ..HostConfig::default() }, "sessions_root_dir"),
            (HostConfig { object_store: Some("/opt/packs".into()), ..HostConfig::default() }, "object_store"),
        ];
        for (config, field) in bad {
            let error = config.validate().unwrap_err();
            assert_eq!(error.field(), Some(field));
            assert!(error.message().contains("` is below `/"), "{error}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_refused_and_the_key_is_named() {
        let bad = [
            (HostConfig { snapshot_prefix: "../x".into(), ..HostConfig::default() }, "snapshot_prefix"),
            (HostConfig { pool_space_warn_threshold: 0.99, ..HostConfig::default() }, "pool_space_crit_threshold"),
            (HostConfig { health_check_interval: Duration::ZERO, ..HostConfig::default() }, "health_check_interval"),
            (HostConfig { tool_timeout: Duration::ZERO, ..HostConfig::default() }, "tool_timeout"),
            (HostConfig { advertise_addr: String::new(), ..HostConfig::default() }, "advertise_addr"),
            (HostConfig { object_store: Some("packs".into()), ..HostConfig::default() }, "object_store"),
            (HostConfig { egress_ca_file: Some("relative".into()), ..HostConfig::default() }, "egress_ca_file"),
            (HostConfig { egress_ca_file: Some("/no/such/file".into()), ..HostConfig::default() }, "egress_ca_file"),
        ];
        for (config, field) in bad {
            assert_eq!(config.validate().unwrap_err().field(), Some(field));
        }
        assert!(serde_json::from_str::<HostConfig>(r#"{"storage_backend": "floppy"}"#).is_err());
        assert!(serde_json::from_str::<HostConfig>(r#"{"no_such_key": 1}"#).is_err());
        assert!(serde_json::from_str::<HostConfig>(r#"{"ingress_domain": "127.0.0.1"}"#).is_err());
    }

    #[test]
    fn dns_servers_are_addresses_with_or_without_a_port() {
        let text = r#"{"dns_servers": ["192.0.2.53", "192.0.2.53:5353", "2001:db8::53", "[2001:db8::53]:5353"]}"#;
        let config: HostConfig = serde_json::from_str(text).unwrap();
        let ports: Vec<u16> = config.dns_servers.iter().map(|server| SocketAddr::from(*server).port()).collect();
        assert_eq!(ports, [53, 5353, 53, 5353]);
        assert_eq!(config.dns_servers[1].to_string(), "192.0.2.53:5353");
        for text in ["[fe80::1%3]:53", "[fe80::1%3]:5353", "fe80::1", "192.0.2.53"] {
            assert_eq!(text.parse::<DnsServer>().unwrap().to_string(), text);
        }
        for bad in ["", "dns.example", "192.0.2.53:0", "0.0.0.0", "192.0.2", "192.0.2.53:"] {
            assert_eq!(bad.parse::<DnsServer>().unwrap_err().field(), Some("dns_servers"), "{bad}");
        }
    }

    #[test]
    fn sizes_and_times_are_written_as_people_write_them() {
        let text = r#"{"default_session_quota": "2G", "health_check_interval": "5m"}"#;
        let config: HostConfig = serde_json::from_str(text).unwrap();
        assert_eq!(config.default_session_quota, ByteCount::gib(2));
        assert_eq!(config.health_check_interval, Duration::from_mins(5));
    }
}
