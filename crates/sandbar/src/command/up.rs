//! `sandbar up`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use sandbar_core::{BaseName, DomainName, Error, ErrorCode, Result, RuntimeKind};
use sandbar_host::{Host, HostConfig, prepare_data_directory};
use sandbar_net::NameServer;
use sandbar_server::{AccessToken, RunningServer, TlsConfig, TlsIdentity};
use sandbar_storage::ImportSource;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{ServerConfig, Settings, TlsMode},
    descriptor_limit, env_vars,
    failure::{Failure, Outcome, exit},
    interrupt::Interrupts,
    local_authority,
    local_files::{self, ServedDomain},
    logging, mount_namespace, name_server, output,
    trace_export::TraceExport,
};

#[derive(Args, Debug)]
#[command(
    about = "Start a host on this machine, in the foreground",
    long_about = "\
Start a host on this machine, in the foreground.

Everything has a default; a TOML file, SANDBAR_* variables and flags override it, in this order. `auto` chooses storage
and runtime by trying, and says what it chose and why; anything named must work. The runtime is what keeps commands apart
from this machine: `auto` takes native, else gvisor; `none` isolates nothing and has to be named, except by an ordinary
user for whom nothing else works. Ctrl-C or SIGTERM stops the host and keeps all sandboxes; a second one stops it at once.",
    after_help = EXAMPLES_AND_KEYS
)]
pub(crate) struct UpArgs {
    /// Where to listen; port 0 takes any free one [default: 127.0.0.1:9100]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where to keep data [default: /var/lib/sandbar for root, else $XDG_DATA_HOME/sandbar]
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
    /// Listen beyond this machine without TLS
    #[arg(long)]
    insecure: bool,
    /// TLS by an authority of this machine's own: auto or off [default: off]
    #[arg(long, value_name = "MODE")]
    tls: Option<String>,
    /// TLS by this certificate, PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Let in only clients with a certificate of these authorities, PEM
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Ports of sandboxes have names below this [default: localhost]
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// Answer there, as a name server, for the names below the domain
    #[arg(long, value_name = "ADDRESS")]
    dns: Option<SocketAddr>,
}

const EXAMPLES_AND_KEYS: &str = "\
Examples:
  sandbar up
  sandbar up --data-dir /srv/sandbar --storage btrfs --runtime native
  sandbar up --listen 0.0.0.0:9100 --tls auto
  sandbar up --listen 0.0.0.0:9100 --tls-cert host.pem --tls-key host.key --tls-client-ca clients.pem
  sandbar up --tls auto --domain sbx.test --dns 127.0.0.1:5353
  SANDBAR_MAX_SESSIONS=50 sandbar up --config sandbar.toml

Keys of the configuration file (and SANDBAR_<KEY> variables):
  listen                     \"127.0.0.1:9100\"
  insecure                   false
  slow_reader_timeout        \"5m\": a stream whose reader takes nothing for so long is ended
  max_calls_per_token        512: calls under way with one access token; 0, unlimited
  request_timeout            \"10m\": longest unary call without a deadline of its own; \"0s\", any time
  tls                        \"off\", or \"auto\": TLS by an authority of this machine's own, DATA_DIR/tls/ca.pem
  tls_cert_file              TLS by this certificate, PEM, followed by those between it and its authority
  tls_key_file               its key, PEM; both files are read again when they change
  tls_client_ca_file         PEM: only clients with a certificate of one of these authorities are let in
  dns_listen                 \"127.0.0.1:5353\": there is answered that ingress_domain and all below it is this host
  data_dir                   \"/var/lib/sandbar\"
  storage_backend            \"auto\", \"zfs\", \"btrfs\" or \"local-disk\"
  container_runtime          \"auto\", \"gvisor\", \"native\" or \"none\"
  pool_name                  ZFS pool
  bases_dataset              ZFS dataset of bases
  sessions_dataset           ZFS dataset of sessions
  sessions_root_dir          root of btrfs and local-disk, when it is not below the data directory
  pool_image_limit           \"100G\": how large a btrfs image of our own may grow; four fifths of the disk
  max_sessions               0, unlimited
  default_session_quota      0, none; or \"2G\"
  snapshot_prefix            \"turn\"
  max_snapshots_per_session  0, unlimited
  default_resources          { pids = 1024, output = \"10M\" }; also cpus, memory, open_files, wall_time
  tool_timeout               \"5m\"
  per_tool_snapshots         false
  pool_space_warn_threshold  0.85
  pool_space_crit_threshold  0.95
  health_check_interval      \"30s\"
  pause_drain_timeout        \"30s\"
  shutdown_timeout           \"30s\"
  default_idle_timeout       \"0s\", never; or \"15m\": pause sessions nobody used for so long
  start_boxes_at_once        false: a box starts when something first runs in it
  advertise_addr             \"127.0.0.1\": host part of the addresses of exposed ports
  ingress_domain             \"localhost\": ports are reached at http://PORT-SESSION.localhost:9100
  object_store               a directory or s3://bucket for hibernated sessions, when not below the data directory
  pressure_snapshots_per_session  10: so many turn and tool snapshots are left when the pool is nearly full
  dns_servers                [\"192.0.2.53\"]: asked for names by sandboxes; else those of /etc/resolv.conf
  egress_ca_file             certificates in PEM that servers are trusted by, beside the system's
  audit_retention            \"720h\": how long the audit log of a destroyed session is kept";

pub(crate) fn execute(args: UpArgs) -> Outcome {
    let settings = Settings::load(args.config.as_deref(), |layers| {
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        layers.add_flag("listen", "listen", args.listen.map(|address| address.to_string()));
        layers.add_flag("data-dir", "data_dir", text(&args.data_dir));
        layers.add_flag("storage", "storage_backend", args.storage);
        layers.add_flag("runtime", "container_runtime", args.runtime);
        layers.add_flag("insecure", "insecure", args.insecure.then_some(true));
        layers.add_flag("tls", "tls", args.tls);
        layers.add_flag("tls-cert", "tls_cert_file", text(&args.tls_cert));
        layers.add_flag("tls-key", "tls_key_file", text(&args.tls_key));
        layers.add_flag("tls-client-ca", "tls_client_ca_file", text(&args.tls_client_ca));
        layers.add_flag("domain", "ingress_domain", args.domain);
        layers.add_flag("dns", "dns_listen", args.dns.map(|address| address.to_string()));
    })
    .map_err(Failure::Usage)?;
    refuse_open_door(&settings.server)?;
    for (variable, meant) in &settings.unknown_variables {
        let meant = meant.as_ref().map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        output::say(format_args!("note: {variable} is set and is no key of the configuration{meant}"));
    }
    // Before the first thread: threads made later inherit the namespace, threads made earlier would not.
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
    // Tasks that end now let go of the host, which takes its cgroup away; what hangs is not waited for any longer.
    runtime.shutdown_timeout(Duration::from_secs(2));
    outcome
}

/// A host that anyone on the network can reach needs TLS, or somebody who says it is fine.
fn refuse_open_door(server: &ServerConfig) -> Outcome<()> {
    if server.listen.ip().is_loopback() || server.insecure || server.speaks_tls() {
        return Ok(());
    }
    let what = format!("{} is not this machine alone — without TLS the token could be read on the way", server.listen);
    Err(Failure::Usage(Error::invalid("listen", what).with_hint(
        "give --tls auto, or --tls-cert and --tls-key; or listen on 127.0.0.1 and forward the port (ssh -L); or give \
         --insecure",
    )))
}

/// Moves this process into a mount namespace of its own. With a ZFS pool, the machine's ZFS mounts are shared first, so
/// that what a ZFS daemon mounts for us later shows up here.
fn leave_shared_mounts(host: &HostConfig) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        output::say(
            "note: not running as root: no mounts, so storage is local-disk without layers; `sudo sandbar up` has it all",
        );
        return Ok(());
    }
    if let Some(zfs) = host.zfs() {
        sandbar_storage::zfs::share_mounts(&zfs)?;
    }
    if let Err(error) = mount_namespace::enter_private() {
        output::say(format_args!("note: {} — mounts of this host are visible to the machine", error.chain()));
    }
    Ok(())
}

async fn serve(settings: Settings) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    let data_dir = settings.host.data_dir.clone();
    prepare_data_directory(&data_dir)?;
    // What is wrong with it is said before anything is started.
    let tls = tls_of(&settings)?;
    let advertised = settings.host.advertise_addr.clone();
    let host = Host::start(settings.host).await?;
    // After boxes have their origin, so that commands find the usual limit.
    descriptor_limit::raise();
    let shutdown = CancellationToken::new();
    let opened = open(&host, &settings.server, &advertised, tls, &data_dir, shutdown.clone()).await;
    let Open { server, name_server } = match opened {
        Ok(open) => open,
        Err(error) => {
            // The first complaint is the one that explains what happened.
            let _ = host.shutdown().await;
            return Err(error.into());
        }
    };
    announce(&host, server.address(), name_server.as_ref(), &settings.server, &data_dir);
    interrupts.next().await;
    output::say("stopping; sandboxes stay. Once more stops at once");
    let stopping = async {
        shutdown.cancel();
        let drained = server.finished().await;
        host.shutdown().await.and(drained)
    };
    let outcome = tokio::select! {
        stopped = stopping => stopped.map(|()| ExitCode::SUCCESS).map_err(Failure::from),
        _ = interrupts.next() => Ok(ExitCode::from(exit::INTERRUPTED)),
    };
    local_files::remove_address(&data_dir);
    outcome
}

/// How the port speaks TLS, when it does.
fn tls_of(settings: &Settings) -> Result<Option<TlsConfig>> {
    let server = &settings.server;
    let client_ca = server.tls_client_ca_file.clone();
    if server.tls == TlsMode::Auto {
        let identity = TlsIdentity::Local(local_authority::identity(&settings.host, server.listen)?);
        return Ok(Some(TlsConfig { identity, client_ca }));
    }
    let (Some(certificate), Some(key)) = (server.tls_cert_file.clone(), server.tls_key_file.clone()) else {
        return Ok(None);
    };
    Ok(Some(TlsConfig { identity: TlsIdentity::Files { certificate, key }, client_ca }))
}

/// What a host that answers consists of beside itself.
struct Open {
    server: RunningServer,
    name_server: Option<NameServer>,
}

/// Everything between a started host and one that answers.
async fn open(
    host: &Arc<Host>,
    config: &ServerConfig,
    advertised: &str,
    tls: Option<TlsConfig>,
    data_dir: &Path,
    shutdown: CancellationToken,
) -> Result<Open> {
    import_default_base(host).await?;
    let token = AccessToken::new(local_files::read_or_make_token(data_dir)?)?;
    if config.tls == TlsMode::Off {
        local_authority::hide(data_dir);
    }
    let speaks_tls = tls.is_some();
    let dns_listen = config.dns_listen;
    let config = sandbar_server::ServerConfig {
        tls,
        max_calls_per_token: config.max_calls_per_token,
        request_timeout: config.request_timeout,
        slow_reader_timeout: config.slow_reader_timeout,
        ..sandbar_server::ServerConfig::new(config.listen, Some(token))
    };
    let server = sandbar_server::serve(Arc::clone(host), config, shutdown).await?;
    let domain = host.ingress_domain();
    let name_server = match dns_listen {
        Some(listen) => Some(name_server::start(listen, domain, server.address().ip(), advertised).await?),
        None => None,
    };
    // Programs that go by names insist on TLS, and `localhost` has no names below it everywhere.
    let is_usable = speaks_tls && *domain != DomainName::localhost();
    let domain = ServedDomain { name: domain.clone(), name_server: name_server.as_ref().map(NameServer::address) };
    local_files::write_domain(data_dir, is_usable.then_some(&domain))?;
    local_files::write_address(data_dir, &local_files::local_url(server.address(), speaks_tls))?;
    Ok(Open { server, name_server })
}

/// The first sandbox needs no download: the base `host` is made when it is not there.
async fn import_default_base(host: &Host) -> Result<()> {
    let name = BaseName::new("host")?;
    if host.list_bases().await?.iter().any(|base| base.name == name) {
        return Ok(());
    }
    match host.import_base(&name, &ImportSource::Host, |_| {}).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == ErrorCode::BaseExists => Ok(()),
        Err(error) => {
            output::say(format_args!("note: the base `host` could not be made: {}", crate::failure::describe(&error)));
            Ok(())
        }
    }
}

/// Says what was chosen, where it listens, and what to type next.
fn announce(
    host: &Host,
    address: SocketAddr,
    name_server: Option<&NameServer>,
    server: &ServerConfig,
    data_dir: &Path,
) {
    let program = std::env::args().next().unwrap_or_else(|| "sandbar".to_owned());
    output::say(format_args!("sandbar {}", env!("CARGO_PKG_VERSION")));
    output::say(format_args!("  storage  {}", host.storage_summary()));
    output::say(format_args!("  runtime  {}", host.runtime_summary()));
    output::say(format_args!("  data     {}", data_dir.display()));
    if host.capabilities().runtime == RuntimeKind::None {
        output::say("note: commands are not isolated from this machine; run only what you would run on it yourself");
    }
    if server.tls == TlsMode::Auto {
        let authority = local_authority::certificate_path(data_dir);
        output::say(format_args!("  tls      by {}: clients elsewhere need it as --ca-file", authority.display()));
    }
    if let Some(name_server) = name_server {
        let domain = host.ingress_domain();
        output::say(format_args!("  dns      {} answers for {domain} and all below it", name_server.address()));
    }
    let scheme = if server.speaks_tls() { "https" } else { "http" };
    output::say(format_args!("listening on {scheme}://{address}"));
    output::say("\nin another terminal:");
    if data_dir != local_files::default_data_dir() {
        output::say(format_args!(
            "  export {}={}",
            env_vars::DATA_DIR,
            output::shell_word(&data_dir.to_string_lossy())
        ));
    }
    if server.tls_cert_file.is_some() {
        let url = format!("https://NAME:{}", address.port());
        output::say(format_args!("  export {}={url}   NAME as in the certificate", env_vars::URL));
        output::say(format_args!(
            "  export {}=\"$(cat {})\"",
            env_vars::TOKEN,
            local_files::token_path(data_dir).display()
        ));
    }
    let program = output::shell_word(&program);
    output::say(format_args!("  {program} run -- sh -c 'echo hello from a sandbox'"));
    output::say(format_args!("  id=$({program} new)"));
    output::say(format_args!("  {program} exec $id -- sh -c 'date > now.txt; cat now.txt'"));
    output::say(format_args!("  {program} snapshot $id first"));
    output::say(format_args!("  {program} --help"));
    output::say(format_args!("  eval \"$({program} env)\"   points the E2B SDKs at this host"));
    output::say("\nstop with Ctrl-C; sandboxes stay");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_configuration_is_in_the_help() {
        for key in Settings::known_keys() {
            assert!(EXAMPLES_AND_KEYS.contains(&format!("\n  {key} ")), "`{key}` is not explained");
        }
    }

    #[test]
    fn only_loopback_is_opened_without_saying_so() {
        let config = |listen: &str, insecure| ServerConfig {
            listen: listen.parse().unwrap(),
            insecure,
            ..ServerConfig::default()
        };
        for open in [config("127.0.0.1:0", false), config("[::1]:9100", false), config("0.0.0.0:9100", true)] {
            assert!(refuse_open_door(&open).is_ok(), "{open:?}");
        }
        let tls = ServerConfig { tls: TlsMode::Auto, ..config("0.0.0.0:9100", false) };
        assert!(refuse_open_door(&tls).is_ok());
        for shut in [config("0.0.0.0:9100", false), config("[::]:9100", false), config("192.0.2.1:1", false)] {
            assert!(matches!(refuse_open_door(&shut), Err(Failure::Usage(_))), "{shut:?}");
        }
    }
}
