//! `sandbar up`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use sandbar_core::{Error, Result};
use sandbar_host::HostConfig;
use sandbar_storage::enter_private_mounts;
use toml::Value;

use crate::{
    config::{ServerConfig, Settings, reference_help},
    failure::{Failure, Outcome},
    local_host::{logging, serve::serve, trace_export::TraceExport},
    terminal::output,
};

#[derive(Args, Debug)]
#[command(
    about = "Start a host on this machine, in the foreground",
    long_about = "\
Start a host on this machine, in the foreground.

Every setting has a default; a TOML file, SANDBAR_* variables and flags override it, in this order. `auto` tries storages
and runtimes and says which it chose and why; one that is named must work. The runtime isolates commands from this machine:
`auto` takes native, else gvisor; `none` isolates nothing and must be named, unless an ordinary user can use no other.
Ctrl-C or SIGTERM stops the host and keeps all sandboxes; a second one stops it at once.",
    after_help = examples_and_keys()
)]
pub(crate) struct UpArgs {
    /// Address and port of the API; port 0 takes any free port [default: 127.0.0.1:9100]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Data directory [default: /var/lib/sandbar for root, else $XDG_DATA_HOME/sandbar]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Storage: auto, zfs, btrfs or local-disk [default: auto]
    #[arg(long, value_name = "KIND")]
    storage: Option<String>,
    /// Runtime: auto, gvisor, native or none [default: auto]
    #[arg(long, value_name = "KIND")]
    runtime: Option<String>,
    /// Configuration file, TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Allow plain HTTP on an address that is not loopback
    #[arg(long)]
    insecure: bool,
    /// TLS with certificates of a local authority: auto or off [default: off]
    #[arg(long, value_name = "MODE")]
    tls: Option<String>,
    /// TLS with this certificate chain, PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate of these authorities, PEM
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Domain of ports in sandboxes [default: localhost]
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// Address of a name server for the domain
    #[arg(long, value_name = "ADDRESS")]
    dns: Option<SocketAddr>,
}

/// Returns the text after the options: examples, then every key of the configuration.
fn examples_and_keys() -> String {
    format!("{EXAMPLES}\n\n{KEYS_HEADING}\n{}", reference_help())
}

const EXAMPLES: &str = "\
Examples:
  sandbar up
  sandbar up --data-dir /srv/sandbar --storage btrfs --runtime native
  sandbar up --listen 0.0.0.0:9100 --tls auto
  sandbar up --listen 0.0.0.0:9100 --tls-cert host.pem --tls-key host.key --tls-client-ca clients.pem
  sandbar up --tls auto --domain sbx.test --dns 127.0.0.1:5353
  SANDBAR_MAX_SESSIONS=50 sandbar up --config sandbar.toml";

const KEYS_HEADING: &str =
    "Keys of the configuration file (and SANDBAR_<KEY> variables), with their defaults:";

impl UpArgs {
    /// Returns every flag that sets a key: the flag, the key and the value given for it.
    pub(crate) fn flags(&self) -> [(&'static str, &'static str, Option<Value>); 11] {
        fn value(text: Option<impl ToString>) -> Option<Value> {
            text.map(|text| Value::String(text.to_string()))
        }
        let path = |path: &Option<PathBuf>| value(path.as_ref().map(|path| path.to_string_lossy()));
        [
            ("listen", "listen", value(self.listen)),
            ("data-dir", "data_dir", path(&self.data_dir)),
            ("storage", "storage_backend", value(self.storage.as_ref())),
            ("runtime", "container_runtime", value(self.runtime.as_ref())),
            (
                "insecure",
                "insecure",
                self.insecure.then_some(Value::Boolean(true)),
            ),
            ("tls", "tls", value(self.tls.as_ref())),
            ("tls-cert", "tls_cert_file", path(&self.tls_cert)),
            ("tls-key", "tls_key_file", path(&self.tls_key)),
            (
                "tls-client-ca",
                "tls_client_ca_file",
                path(&self.tls_client_ca),
            ),
            ("domain", "ingress_domain", value(self.domain.as_ref())),
            ("dns", "dns_listen", value(self.dns)),
        ]
    }
}

pub(crate) fn execute(args: &UpArgs) -> Outcome {
    let settings = Settings::load(args.config.as_deref(), |layers| {
        for (flag, key, value) in args.flags() {
            layers.add_flag(flag, key, value);
        }
    })
    .map_err(Failure::Usage)?;
    refuse_exposed_plaintext(&settings.server)?;
    for (variable, meant) in &settings.unknown_variables {
        let meant = meant
            .as_ref()
            .map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        output::say(format_args!(
            "note: {variable} is not a key of the configuration{meant}"
        ));
    }
    // Before the first thread starts: only threads created later inherit the mount namespace.
    leave_shared_mounts(&settings.host)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("could not start the async runtime", error))?;
    let export = {
        let _context = runtime.enter();
        TraceExport::from_environment()?
    };
    logging::start(export.as_ref())?;
    let outcome = runtime.block_on(serve(settings));
    if let Some(export) = export {
        export.finish();
    }
    // Tasks that end here drop the host, which removes its cgroup. Tasks that hang are abandoned.
    runtime.shutdown_timeout(Duration::from_secs(2));
    outcome
}

/// Refuses to listen beyond loopback without TLS, unless `--insecure` is given.
fn refuse_exposed_plaintext(server: &ServerConfig) -> Outcome<()> {
    if server.listen.ip().is_loopback() || server.insecure || server.speaks_tls() {
        return Ok(());
    }
    let what = format!(
        "listening on {} without TLS would send the access token in plain text",
        server.listen
    );
    Err(Failure::Usage(Error::invalid("listen", what).with_hint(
        "give --tls auto, or --tls-cert and --tls-key; or listen on 127.0.0.1 and forward the port (ssh -L); or give \
         --insecure",
    )))
}

/// Moves this process into a mount namespace of its own. With a ZFS pool, the machine's ZFS mounts
/// are shared first, so that what a ZFS daemon mounts for us later shows up here.
fn leave_shared_mounts(host: &HostConfig) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        output::say(
            "note: not running as root, so storage is local-disk without layers; `sudo sandbar up` has all features",
        );
        return Ok(());
    }
    if let Some(zfs) = host.zfs() {
        sandbar_storage::zfs::share_mounts(&zfs)?;
    }
    if let Err(error) = enter_private_mounts() {
        output::say(format_args!(
            "note: {} — mounts of this host are visible to other processes",
            error.chain()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlsMode;

    #[test]
    fn plain_http_beyond_loopback_needs_insecure() {
        let config = |listen: &str, insecure| ServerConfig {
            listen: listen.parse().unwrap(),
            insecure,
            ..ServerConfig::default()
        };
        for open in [
            config("127.0.0.1:0", false),
            config("[::1]:9100", false),
            config("0.0.0.0:9100", true),
        ] {
            assert!(refuse_exposed_plaintext(&open).is_ok(), "{open:?}");
        }
        let tls = ServerConfig {
            tls: TlsMode::Auto,
            ..config("0.0.0.0:9100", false)
        };
        assert!(refuse_exposed_plaintext(&tls).is_ok());
        for shut in [
            config("0.0.0.0:9100", false),
            config("[::]:9100", false),
            config("192.0.2.1:1", false),
        ] {
            assert!(
                matches!(refuse_exposed_plaintext(&shut), Err(Failure::Usage(_))),
                "{shut:?}"
            );
        }
    }
}
