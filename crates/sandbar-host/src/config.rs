//! [`HostConfig`]: the configuration of a host. Every key has a default that works.

use std::{
    fmt,
    fs::File,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use sandbar_core::{
    ByteCount, DomainName, Error, Resources, Result, RuntimeKind, SnapshotName, StorageKind,
    duration_text,
};
use sandbar_storage::{StorageConfig, ZfsConfig, lent_directory_of, pack::Target};
use serde::{Deserialize, Serialize};

use crate::{default_limits::without_zeros, object_store};

/// The configuration of a host. Unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// Host name or IP address in the addresses of exposed ports.
    pub advertise_addr: String,
    /// Domain of ingress: ports of a session are reached as `<port>-<session>.<ingress_domain>` on
    /// the port of the API.
    pub ingress_domain: DomainName,
    /// Directory of the state database, and of the storage unless `sessions_root_dir` is set.
    pub data_dir: PathBuf,
    pub storage_backend: StorageChoice,
    pub container_runtime: RuntimeChoice,
    /// ZFS: name of the pool.
    pub pool_name: Option<String>,
    /// ZFS: dataset of bases; `<pool>/bases` when absent.
    pub bases_dataset: Option<String>,
    /// ZFS: dataset of sessions; `<pool>/sessions` when absent.
    pub sessions_dataset: Option<String>,
    /// Root directory of btrfs and local-disk; `<data_dir>/storage` when absent.
    pub sessions_root_dir: Option<PathBuf>,
    /// Maximum size of the pool image that btrfs creates; four fifths of the disk when absent.
    pub pool_image_limit: Option<ByteCount>,
    /// Maximum number of sessions in all states; 0 is no limit.
    pub max_sessions: usize,
    /// Quota of sessions that set none; 0 is no quota. 10 GiB when absent, where the storage has
    /// quotas.
    pub default_session_quota: Option<ByteCount>,
    /// Prefix of turn snapshots.
    pub snapshot_prefix: String,
    /// Snapshots per session beyond which turn and tool snapshots are pruned, oldest first; 0 is no
    /// limit.
    pub max_snapshots_per_session: usize,
    /// Snapshots per session beyond which named ones are refused; 0 is no limit.
    pub max_named_snapshots_per_session: usize,
    /// The same limit while the pool is nearly full.
    pub pressure_snapshots_per_session: usize,
    /// Resource limits that neither the session nor the call sets. Keys that are absent have the
    /// built-in limit, which for memory is half of the machine's; 0 is no limit.
    pub default_resources: Resources,
    /// Maximum duration of a tool call.
    #[serde(with = "duration_text")]
    pub tool_timeout: Duration,
    /// Take a snapshot after every successful tool call.
    pub per_tool_snapshots: bool,
    /// Used share of the pool from which the host is degraded.
    pub pool_space_warn_threshold: f64,
    /// Used share of the pool from which the host refuses new sessions.
    pub pool_space_crit_threshold: f64,
    /// Interval of the janitor, which repeats failed deletions and checks the space of the pool.
    #[serde(with = "duration_text")]
    pub health_check_interval: Duration,
    /// Start the box of a session when the session is created, and not with its first command.
    pub start_boxes_at_once: bool,
    /// Time that pause, rollback and destroy wait for operations in progress.
    #[serde(with = "duration_text")]
    pub pause_drain_timeout: Duration,
    /// Idle time after which a session that sets none is paused; zero is never.
    #[serde(with = "duration_text")]
    pub default_idle_timeout: Duration,
    /// Store of hibernated sessions: an absolute directory, or
    /// `s3://bucket?region=..&endpoint=..&allow_http=true` with keys from the environment;
    /// `<data_dir>/packs` when absent.
    pub object_store: Option<String>,
    /// DNS servers of the egress gateway, `ip` or `ip:port`; those of `/etc/resolv.conf` when
    /// empty.
    pub dns_servers: Vec<DnsServer>,
    /// CA certificates in PEM that the egress gateway trusts beside those of the system.
    pub egress_ca_file: Option<PathBuf>,
    /// Retention of the audit log of a destroyed session; zero is for ever.
    #[serde(with = "duration_text")]
    pub audit_retention: Duration,
    /// Size of the audit log of a session beyond which only counts of repeated entries are written;
    /// a sixteenth of it is added for each day of the log's age; 0 is no limit.
    pub max_audit_size: ByteCount,
    /// Time that a stopping host waits for operations in progress.
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
            default_session_quota: None,
            snapshot_prefix: "turn".into(),
            max_snapshots_per_session: 1000,
            max_named_snapshots_per_session: 1000,
            pressure_snapshots_per_session: 10,
            default_resources: Resources {
                pids: Some(1024),
                output: Some(ByteCount::mib(10)),
                ..Resources::default()
            },
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
            max_audit_size: ByteCount::mib(16),
            shutdown_timeout: Duration::from_secs(30),
        }
    }
}

impl HostConfig {
    /// Returns the configuration of a host with this data directory, storage and runtime, and
    /// defaults for everything else. Reverses [`storage`](Self::storage).
    pub fn on_storage(
        data_dir: impl Into<PathBuf>,
        storage: &StorageConfig,
        runtime: RuntimeKind,
    ) -> Self {
        let zfs = storage.zfs.clone();
        Self {
            data_dir: data_dir.into(),
            storage_backend: storage
                .choice
                .map_or(StorageChoice::Auto, StorageChoice::Named),
            container_runtime: RuntimeChoice::Named(runtime),
            pool_name: zfs.as_ref().map(|zfs| zfs.pool.clone()),
            bases_dataset: zfs.as_ref().and_then(|zfs| zfs.bases_dataset.clone()),
            sessions_dataset: zfs.and_then(|zfs| zfs.sessions_dataset),
            sessions_root_dir: Some(storage.directory.clone()),
            pool_image_limit: storage.pool_image_limit,
            ..Self::default()
        }
    }

    /// Checks the values beyond what their types guarantee.
    pub fn validate(&self) -> Result<()> {
        // The longest turn number has twenty digits.
        SnapshotName::new(format!("{}-{}", self.snapshot_prefix, u64::MAX)).map_err(|error| {
            Error::invalid(
                "snapshot_prefix",
                format!("snapshot prefix `{}` is invalid", self.snapshot_prefix),
            )
            .with_hint("start with a letter or digit, then letters, digits, `.`, `_` or `-`")
            .with_source(error)
        })?;
        let (warn, critical) = (
            self.pool_space_warn_threshold,
            self.pool_space_crit_threshold,
        );
        if !(0.0..=1.0).contains(&warn) || !(0.0..=1.0).contains(&critical) || warn > critical {
            return Err(Error::invalid(
                "pool_space_crit_threshold",
                format!("space thresholds {warn} and {critical} are invalid"),
            )
            .with_hint("use shares between 0 and 1, the warning not above the critical one"));
        }
        if self.health_check_interval.is_zero() {
            return Err(
                Error::invalid("health_check_interval", "interval is zero").with_hint("use `30s`")
            );
        }
        if self.tool_timeout.is_zero() {
            return Err(
                Error::invalid("tool_timeout", "timeout of tool calls is zero")
                    .with_hint("use `5m`"),
            );
        }
        if self.advertise_addr.is_empty() || self.advertise_addr.contains(char::is_whitespace) {
            return Err(Error::invalid(
                "advertise_addr",
                format!("advertised address `{}` is invalid", self.advertise_addr),
            )
            .with_hint("use a host name or IP address at which clients reach this machine"));
        }
        refuse_lent(
            "data_dir",
            "data directory",
            &self.data_dir,
            "choose another with `--data-dir`",
        )?;
        if let Some(path) = &self.sessions_root_dir {
            refuse_lent(
                "sessions_root_dir",
                "storage directory",
                path,
                "set `sessions_root_dir` to another",
            )?;
        }
        if let Target::Directory(path) = self.object_store_target()? {
            refuse_lent(
                "object_store",
                "object store",
                &path,
                "set `object_store` to another directory",
            )?;
        }
        if let Some(path) = &self.egress_ca_file {
            let usable = if path.is_absolute() {
                File::open(path).map(drop)
            } else {
                Err(std::io::ErrorKind::InvalidInput.into())
            };
            usable.map_err(|error| {
                Error::invalid(
                    "egress_ca_file",
                    format!("`{}` cannot be read", path.display()),
                )
                .with_hint(
                    "use the absolute path of a file with certificates in PEM, or omit the key",
                )
                .with_source(error)
            })?;
        }
        without_zeros(&self.default_resources).validate()
    }

    /// Returns the store of hibernated sessions.
    pub fn object_store_target(&self) -> Result<Target> {
        match &self.object_store {
            None => Ok(Target::Directory(self.data_dir.join("packs"))),
            Some(text) => object_store::parse(text),
        }
    }

    /// Returns the idle timeout of sessions that set none.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        Some(self.default_idle_timeout).filter(|idle| !idle.is_zero())
    }

    /// Returns the configuration of the storage.
    pub fn storage(&self) -> StorageConfig {
        let choice = match self.storage_backend {
            StorageChoice::Auto => None,
            StorageChoice::Named(kind) => Some(kind),
        };
        StorageConfig {
            choice,
            directory: self
                .sessions_root_dir
                .clone()
                .unwrap_or_else(|| self.data_dir.join("storage")),
            zfs: self.zfs(),
            pool_image_limit: self.pool_image_limit,
        }
    }

    /// Returns the configuration of ZFS, if a pool is set.
    pub fn zfs(&self) -> Option<ZfsConfig> {
        Some(ZfsConfig {
            pool: self.pool_name.clone()?,
            bases_dataset: self.bases_dataset.clone(),
            sessions_dataset: self.sessions_dataset.clone(),
        })
    }
}

/// Refuses a private path of the host below a directory that is visible in sandboxes with the base
/// `host`.
pub fn refuse_lent(field: &'static str, what: &str, path: &Path, fix: &str) -> Result<()> {
    let Some(lent) = lent_directory_of(path) else {
        return Ok(());
    };
    Err(Error::invalid(
        field,
        format!(
            "{what} `{}` is below `{}`, which is visible in sandboxes with the base `host`",
            path.display(),
            lent.display()
        ),
    )
    .with_hint(format!("{fix}, for example below `/var/lib` or `/etc`")))
}

/// Address of a DNS server: `192.0.2.53` or `192.0.2.53:5353`.
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
        let plain = || {
            text.parse::<IpAddr>()
                .map(|address| SocketAddr::new(address, Self::PORT))
        };
        match text.parse::<SocketAddr>().or_else(|_| plain()) {
            Ok(address) if address.port() != 0 && !address.ip().is_unspecified() => Ok(Self(address)),
            _ => Err(Error::invalid("dns_servers", format!("DNS server `{}` is invalid", text.escape_debug())).with_hint(
                "use an IP address, with or without a port: `192.0.2.53`, `192.0.2.53:5353`, `[2001:db8::53]:53`",
            )),
        }
    }
}

impl fmt::Display for DnsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `Ipv6Addr` alone would lose the scope id.
        let has_interface = matches!(self.0, SocketAddr::V6(address) if address.scope_id() != 0);
        if self.0.port() == Self::PORT && !has_interface {
            self.0.ip().fmt(f)
        } else {
            self.0.fmt(f)
        }
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

/// Returns an error with its hint, as text for serde.
fn explained(error: &Error) -> String {
    error
        .hint()
        .map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}"))
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $kind:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum $name {
            /// The host chooses, and reports its choice and the reason.
            #[default]
            Auto,
            /// This one, or an error with what is missing.
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
    /// Choice of the storage.
    StorageChoice,
    StorageKind
);
choice!(
    /// Choice of the runtime.
    RuntimeChoice,
    RuntimeKind
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_survive_a_round_trip() {
        let config = HostConfig::default();
        config.validate().unwrap();
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<HostConfig>(&json).unwrap(), config);
    }

    #[test]
    fn paths_below_lent_directories_are_refused() {
        let bad = [
            (
                HostConfig {
                    data_dir: "/opt/sandbar".into(),
                    ..HostConfig::default()
                },
                "data_dir",
            ),
            (
                HostConfig {
                    data_dir: "/usr/local/var/../sandbar".into(),
                    ..HostConfig::default()
                },
                "data_dir",
            ),
            (
                HostConfig {
                    sessions_root_dir: Some("/usr/lib/x".into()),
                    ..HostConfig::default()
                },
                "sessions_root_dir",
            ),
            (
                HostConfig {
                    object_store: Some("/opt/packs".into()),
                    ..HostConfig::default()
                },
                "object_store",
            ),
        ];
        for (config, field) in bad {
            let error = config.validate().unwrap_err();
            assert_eq!(error.field(), Some(field));
            assert!(error.message().contains("` is below `/"), "{error}");
        }
    }

    #[test]
    fn invalid_values_are_refused_by_key() {
        let bad = [
            (
                HostConfig {
                    snapshot_prefix: "../x".into(),
                    ..HostConfig::default()
                },
                "snapshot_prefix",
            ),
            (
                HostConfig {
                    pool_space_warn_threshold: 0.99,
                    ..HostConfig::default()
                },
                "pool_space_crit_threshold",
            ),
            (
                HostConfig {
                    health_check_interval: Duration::ZERO,
                    ..HostConfig::default()
                },
                "health_check_interval",
            ),
            (
                HostConfig {
                    tool_timeout: Duration::ZERO,
                    ..HostConfig::default()
                },
                "tool_timeout",
            ),
            (
                HostConfig {
                    advertise_addr: String::new(),
                    ..HostConfig::default()
                },
                "advertise_addr",
            ),
            (
                HostConfig {
                    object_store: Some("packs".into()),
                    ..HostConfig::default()
                },
                "object_store",
            ),
            (
                HostConfig {
                    egress_ca_file: Some("relative".into()),
                    ..HostConfig::default()
                },
                "egress_ca_file",
            ),
            (
                HostConfig {
                    egress_ca_file: Some("/no/such/file".into()),
                    ..HostConfig::default()
                },
                "egress_ca_file",
            ),
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
        let ports: Vec<u16> = config
            .dns_servers
            .iter()
            .map(|server| SocketAddr::from(*server).port())
            .collect();
        assert_eq!(ports, [53, 5353, 53, 5353]);
        assert_eq!(config.dns_servers[1].to_string(), "192.0.2.53:5353");
        for text in [
            "[fe80::1%3]:53",
            "[fe80::1%3]:5353",
            "fe80::1",
            "192.0.2.53",
        ] {
            assert_eq!(text.parse::<DnsServer>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "dns.example",
            "192.0.2.53:0",
            "0.0.0.0",
            "192.0.2",
            "192.0.2.53:",
        ] {
            assert_eq!(
                bad.parse::<DnsServer>().unwrap_err().field(),
                Some("dns_servers"),
                "{bad}"
            );
        }
    }

    #[test]
    fn sizes_and_times_have_units() {
        let text = r#"{"default_session_quota": "2G", "health_check_interval": "5m"}"#;
        let config: HostConfig = serde_json::from_str(text).unwrap();
        assert_eq!(config.default_session_quota, Some(ByteCount::gib(2)));
        assert_eq!(config.health_check_interval, Duration::from_mins(5));
    }
}
