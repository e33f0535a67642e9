//! The reference of the configuration: every key with its default and meaning.
//!
//! `sandbar up --help` and `docs/configuration.md` are generated from this table. Tests compare it
//! with the fields and the defaults of the configuration types.

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// Default in TOML; `None` for a key that is unset by default.
    pub(crate) default: Option<&'static str>,
    pub(crate) meaning: &'static str,
}

const fn key(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key {
        name,
        default: Some(default),
        meaning,
    }
}

const fn unset(name: &'static str, meaning: &'static str) -> Key {
    Key {
        name,
        default: None,
        meaning,
    }
}

/// Keys by topic.
static TOPICS: [(&str, &[Key]); 7] = [
    (
        "Server",
        &[
            key(
                "listen",
                "\"127.0.0.1:9100\"",
                "address and port of the API; port 0 takes any free port",
            ),
            key(
                "insecure",
                "false",
                "allow plain HTTP on an address that is not loopback",
            ),
            key(
                "max_calls_per_token",
                "512",
                "concurrent calls per access token; 0 is unlimited",
            ),
            unset(
                "max_connections",
                "open connections of all peers; unset is half of the file descriptors",
            ),
            key(
                "request_timeout",
                "\"10m\"",
                "deadline of unary calls that carry none; \"0s\" is no deadline",
            ),
            key(
                "slow_reader_timeout",
                "\"5m\"",
                "end a stream whose client reads nothing for this long",
            ),
            key(
                "shutdown_timeout",
                "\"30s\"",
                "time a stopping host waits for running calls",
            ),
        ],
    ),
    (
        "TLS and names",
        &[
            key(
                "tls",
                "\"off\"",
                "\"auto\" serves TLS with a local authority, DATA_DIR/tls/ca.pem",
            ),
            unset(
                "tls_cert_file",
                "certificate chain to serve TLS with, PEM, leaf first; reloaded when it changes",
            ),
            unset(
                "tls_key_file",
                "private key of that certificate, PEM; reloaded when it changes",
            ),
            unset(
                "tls_client_ca_file",
                "authorities, PEM: only clients with a certificate of one of them may connect",
            ),
            key(
                "ingress_domain",
                "\"localhost\"",
                "domain of ports in sandboxes: http://PORT-SESSION.localhost:9100",
            ),
            unset(
                "dns_listen",
                "address of a name server for ingress_domain, such as \"127.0.0.1:5353\"",
            ),
            key(
                "advertise_addr",
                "\"127.0.0.1\"",
                "host part of the addresses of exposed ports",
            ),
        ],
    ),
    (
        "E2B sandboxes",
        &[
            key(
                "e2b_open_egress",
                "true",
                "whether they reach everything public; false, only what their settings name",
            ),
            key(
                "e2b_public_ports",
                "true",
                "whether their ports may need no token",
            ),
            key(
                "e2b_root_rights",
                "\"own\"",
                "rights of root: \"own\" where the host supports it, or \"bare\"",
            ),
        ],
    ),
    (
        "Storage",
        &[
            key(
                "data_dir",
                "\"/var/lib/sandbar\"",
                "state of the host; for users other than root $XDG_DATA_HOME/sandbar",
            ),
            key(
                "storage_backend",
                "\"auto\"",
                "\"auto\", \"zfs\", \"btrfs\" or \"local-disk\"",
            ),
            unset(
                "sessions_root_dir",
                "root of btrfs and local-disk storage; unset, DATA_DIR/storage",
            ),
            unset(
                "pool_image_limit",
                "maximum size of a btrfs image, such as \"100G\"; unset, 80 % of the disk",
            ),
            unset("pool_name", "ZFS pool"),
            unset("bases_dataset", "ZFS dataset of bases; unset, POOL/bases"),
            unset(
                "sessions_dataset",
                "ZFS dataset of sessions; unset, POOL/sessions",
            ),
            key(
                "pool_space_warn_threshold",
                "0.85",
                "used share of the pool from which the host reports degraded health",
            ),
            key(
                "pool_space_crit_threshold",
                "0.95",
                "used share of the pool from which new sessions are refused",
            ),
            unset(
                "object_store",
                "directory or s3://BUCKET for hibernated sessions; unset, DATA_DIR/packs",
            ),
        ],
    ),
    (
        "Sessions and snapshots",
        &[
            key(
                "max_sessions",
                "0",
                "sessions in all states; 0 is unlimited",
            ),
            unset(
                "default_session_quota",
                "disk quota of sessions that request none; 0 is unlimited; unset, 10 GiB where the storage has quotas",
            ),
            key(
                "default_idle_timeout",
                "\"0s\"",
                "pause sessions without activity for this long; \"0s\" is never",
            ),
            key(
                "snapshot_prefix",
                "\"turn\"",
                "prefix of the names of turn snapshots",
            ),
            key(
                "max_snapshots_per_session",
                "1000",
                "turn and tool snapshots beyond this are pruned; 0 is unlimited",
            ),
            key(
                "max_named_snapshots_per_session",
                "1000",
                "named snapshots beyond this are refused; 0 is unlimited",
            ),
            key(
                "pressure_snapshots_per_session",
                "10",
                "the same while the pool is nearly full",
            ),
            key(
                "health_check_interval",
                "\"30s\"",
                "time between checks for expired sessions and retries of failed deletions",
            ),
            key(
                "pause_drain_timeout",
                "\"30s\"",
                "time that pause, rollback and destroy wait for running tool calls",
            ),
            key(
                "audit_retention",
                "\"720h\"",
                "retention of the audit log of a destroyed session; \"0s\" is for ever",
            ),
            key(
                "max_audit_size",
                "\"16M\"",
                "audit log of a session beyond which repeated entries are only counted; \"0\" is unlimited",
            ),
        ],
    ),
    (
        "Runtime",
        &[
            key(
                "container_runtime",
                "\"auto\"",
                "\"auto\", \"gvisor\", \"native\" or \"none\"",
            ),
            key(
                "default_resources",
                "{ pids = 1024, output = \"10M\" }",
                "limits; also cpus, open_files, wall_time and memory (unset, half of the machine's); 0 is unlimited",
            ),
            key(
                "start_boxes_at_once",
                "false",
                "start the box with the session instead of with its first command",
            ),
            key("tool_timeout", "\"5m\"", "maximum duration of a tool call"),
            key(
                "per_tool_snapshots",
                "false",
                "take a snapshot after every successful tool call",
            ),
        ],
    ),
    (
        "Egress",
        &[
            key(
                "dns_servers",
                "[]",
                "resolvers for sandboxes, such as [\"192.0.2.53\"]; empty, those of /etc/resolv.conf",
            ),
            unset(
                "egress_ca_file",
                "authorities, PEM, that the egress gateway trusts beside those of the system",
            ),
        ],
    ),
];

/// Returns the table for the help text, one line a key.
pub(crate) fn help() -> String {
    let lines = TOPICS.iter().flat_map(|(_, keys)| *keys).map(|key| {
        let default = key
            .default
            .map(|default| format!("{default}: "))
            .unwrap_or_default();
        format!("  {:<26} {default}{}", key.name, key.meaning)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt::Write as _, fs};

    use clap::Parser as _;
    use sandbar_host::HostConfig;
    use serde::Serialize;
    use toml::{Table, Value};

    use super::*;
    use crate::{
        cli::{Cli, Verb},
        config::{ServerConfig, Settings},
        env_vars,
    };

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    const UPDATE_VARIABLE: &str = "SANDBAR_UPDATE_DOCS";

    fn keys() -> impl Iterator<Item = &'static Key> {
        TOPICS.iter().flat_map(|(_, keys)| *keys)
    }

    /// Pairs of flag and key, from the definition of `sandbar up`.
    fn flags() -> Vec<(&'static str, &'static str)> {
        let Verb::Up(args) = Cli::try_parse_from(["sandbar", "up"]).unwrap().verb else {
            panic!("not `up`")
        };
        args.flags().map(|(flag, key, _)| (flag, key)).to_vec()
    }

    fn page() -> String {
        let mut page = "# Configuration of a host

<!-- Generated from crates/sandbar/src/config/reference.rs. Rewrite it with
SANDBAR_UPDATE_DOCS=1 cargo nextest run -p sandbar -E 'test(configuration_page)' -->

`sandbar up` takes each setting from the first of these that has it: the flag, the environment
variable, the TOML file given by `--config` or `SANDBAR_CONFIG`, the default. An unknown key in the
file is an error that names the nearest known key; an unknown `SANDBAR_` variable is reported.
`sandbar doctor` prints the effective configuration and the origin of every value.

```toml
# sandbar.toml
listen = \"127.0.0.1:9100\"
max_sessions = 50
default_resources = { pids = 1024, memory = \"2G\" }
```

Durations are written `\"30s\"`, `\"5m\"` or `\"1h 30m\"`, sizes `\"512M\"` or `\"2G\"`. A variable holds
the value as in the file; plain text needs no quotes.
"
        .to_owned();
        let flags = flags();
        for (topic, keys) in &TOPICS {
            let _ = writeln!(
                page,
                "\n## {topic}\n\n| key | flag | variable | default | meaning |\n|---|---|---|---|---|"
            );
            for Key {
                name,
                default,
                meaning,
            } in *keys
            {
                let flag = flags
                    .iter()
                    .find(|(_, key)| key == name)
                    .map(|(flag, _)| format!("`--{flag}`"))
                    .unwrap_or_default();
                let default = default.map_or_else(String::new, |default| format!("`{default}`"));
                let variable = format!("{}{}", env_vars::PREFIX, name.to_ascii_uppercase());
                let _ = writeln!(
                    page,
                    "| `{name}` | {flag} | `{variable}` | {default} | {meaning} |"
                );
            }
        }
        page.push_str("\n## Other environment variables\n\n| variable | meaning |\n|---|---|\n");
        for (name, meaning) in env_vars::ALL {
            let _ = writeln!(page, "| `{name}` | {meaning} |");
        }
        page
    }

    #[test]
    fn configuration_page_matches_the_table() {
        if std::env::var_os(UPDATE_VARIABLE).is_some() {
            fs::write(PAGE, page()).unwrap();
        }
        assert!(
            fs::read_to_string(PAGE).unwrap_or_default() == page(),
            "docs/configuration.md is out of date: run this test with {UPDATE_VARIABLE}=1 to rewrite it"
        );
    }

    #[test]
    fn reference_lists_every_key_once() {
        let listed: Vec<&str> = keys().map(|key| key.name).collect();
        let known: BTreeSet<&str> = Settings::known_keys().into_iter().collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(listed.len(), known.len());
    }

    #[test]
    fn reference_defaults_are_those_of_the_types() {
        fn table(config: impl Serialize) -> Table {
            let Ok(Value::Table(table)) = Value::try_from(config) else {
                panic!("not a table")
            };
            table
        }
        let (mut server, mut host) = (Table::new(), Table::new());
        let server_keys = table(ServerConfig::default());
        for key in keys() {
            let Some(default) = key.default else {
                assert!(
                    !server_keys.contains_key(key.name)
                        && !table(HostConfig::default()).contains_key(key.name),
                    "{} has a default",
                    key.name
                );
                continue;
            };
            let line: Table = format!("{} = {default}", key.name).parse().unwrap();
            if server_keys.contains_key(key.name) {
                server.extend(line);
            } else {
                host.extend(line);
            }
        }
        assert_eq!(
            server.keys().collect::<Vec<_>>(),
            server_keys.keys().collect::<Vec<_>>()
        );
        assert_eq!(
            Value::Table(server).try_into::<ServerConfig>().unwrap(),
            ServerConfig::default()
        );
        assert_eq!(
            Value::Table(host).try_into::<HostConfig>().unwrap(),
            HostConfig::default()
        );
    }

    #[test]
    fn every_flag_of_up_belongs_to_a_key() {
        let names: Vec<&str> = keys().map(|key| key.name).collect();
        for (flag, key) in flags() {
            assert!(names.contains(&key), "--{flag} sets the unknown key {key}");
        }
    }
}
