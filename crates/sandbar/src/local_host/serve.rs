//! The running host of `sandbar up`: host, API server and name server, from start to shutdown.

use std::{net::SocketAddr, num::NonZeroUsize, path::Path, process::ExitCode, sync::Arc};

use sandbar_core::{BaseName, DomainName, ErrorCode, Result, RuntimeKind};
use sandbar_e2b::SandboxCeilings;
use sandbar_egress::NameServer;
use sandbar_host::{Host, prepare_data_directory};
use sandbar_server::{AccessToken, RunningServer, TlsConfig, TlsIdentity};
use sandbar_storage::ImportSource;
use tokio_util::sync::CancellationToken;

use super::{
    authority, descriptor_limit,
    discovery::{self, ServedDomain},
    name_server, oom_score, service_manager,
};
use crate::{
    config::{ServerConfig, Settings, TlsMode},
    env_vars,
    failure::{Failure, Outcome, describe, exit},
    terminal::{Interrupts, output},
};

/// Starts the host and serves it until a signal; a second signal ends the shutdown early.
pub(crate) async fn serve(settings: Settings) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    // Before the host forks the process that spawns boxes, whose end would end them.
    let oom_score = oom_score::lower();
    let data_dir = settings.host.data_dir.clone();
    prepare_data_directory(&data_dir)?;
    // Errors in the TLS files are reported before anything starts.
    let tls = tls_of(&settings)?;
    let advertised = settings.host.advertise_addr.clone();
    let host = Host::start(settings.host).await?;
    // After the host has forked the process that spawns boxes, so that commands inherit the
    // default limit.
    descriptor_limit::raise();
    let shutdown = CancellationToken::new();
    let started = start_servers(
        &host,
        &settings.server,
        &advertised,
        tls,
        &data_dir,
        shutdown.clone(),
    )
    .await;
    let Servers {
        server,
        name_server,
    } = match started {
        Ok(servers) => servers,
        Err(error) => {
            // The first error is the cause; one of the shutdown is not reported.
            let _ = host.shutdown().await;
            return Err(error.into());
        }
    };
    if let Err(error) = oom_score {
        output::say(format_args!(
            "note: the kernel may kill this host when the machine runs out of memory, after the \
             sandboxes: oom_score_adj could not be lowered ({error})"
        ));
    }
    announce(
        &host,
        server.address(),
        name_server.as_ref(),
        &settings.server,
        &data_dir,
    );
    service_manager::notify(service_manager::READY);
    interrupts.next().await;
    service_manager::notify(service_manager::STOPPING);
    output::say("stopping; sandboxes are kept. A second signal stops at once");
    let stopping = async {
        shutdown.cancel();
        let drained = server.finished().await;
        host.shutdown().await.and(drained)
    };
    let outcome = tokio::select! {
        stopped = stopping => stopped.map(|()| ExitCode::SUCCESS).map_err(Failure::from),
        _ = interrupts.next() => Ok(ExitCode::from(exit::INTERRUPTED)),
    };
    discovery::remove_address(&data_dir);
    outcome
}

/// Returns the TLS configuration of the API, if it is served over TLS.
fn tls_of(settings: &Settings) -> Result<Option<TlsConfig>> {
    let server = &settings.server;
    let client_ca = server.tls_client_ca_file.clone();
    if server.tls == TlsMode::Auto {
        let identity = TlsIdentity::Local(authority::identity(&settings.host, server.listen)?);
        return Ok(Some(TlsConfig {
            identity,
            client_ca,
        }));
    }
    let (Some(certificate), Some(key)) =
        (server.tls_cert_file.clone(), server.tls_key_file.clone())
    else {
        return Ok(None);
    };
    Ok(Some(TlsConfig {
        identity: TlsIdentity::Files { certificate, key },
        client_ca,
    }))
}

/// Servers in front of the host.
struct Servers {
    server: RunningServer,
    name_server: Option<NameServer>,
}

/// Starts the servers in front of a started host, and writes the files by which clients find it.
async fn start_servers(
    host: &Arc<Host>,
    config: &ServerConfig,
    advertised: &str,
    tls: Option<TlsConfig>,
    data_dir: &Path,
    shutdown: CancellationToken,
) -> Result<Servers> {
    import_default_base(host).await?;
    let token = AccessToken::new(discovery::read_or_make_token(data_dir)?)?;
    if config.tls == TlsMode::Off {
        authority::hide(data_dir);
    }
    let speaks_tls = tls.is_some();
    let dns_listen = config.dns_listen;
    let defaults = sandbar_server::ServerConfig::new(config.listen, Some(token));
    let config = sandbar_server::ServerConfig {
        tls,
        max_connections: config
            .max_connections
            .map_or(defaults.max_connections, NonZeroUsize::get),
        e2b_ceilings: SandboxCeilings {
            open_egress: config.e2b_open_egress,
            public_ports: config.e2b_public_ports,
            root_rights: config.e2b_root_rights,
        },
        max_calls_per_token: config.max_calls_per_token,
        request_timeout: config.request_timeout,
        slow_reader_timeout: config.slow_reader_timeout,
        ..defaults
    };
    let server = sandbar_server::serve(Arc::clone(host), config, shutdown).await?;
    let domain = host.ingress_domain();
    let name_server = match dns_listen {
        Some(listen) => {
            Some(name_server::start(listen, domain, server.address().ip(), advertised).await?)
        }
        None => None,
    };
    // SDKs that use the domain require TLS, and not every resolver knows names below `localhost`.
    let is_usable = speaks_tls && *domain != DomainName::localhost();
    let domain = ServedDomain {
        name: domain.clone(),
        name_server: name_server.as_ref().map(NameServer::address),
    };
    discovery::write_domain(data_dir, is_usable.then_some(&domain))?;
    discovery::write_address(
        data_dir,
        &discovery::local_url(server.address(), speaks_tls),
    )?;
    Ok(Servers {
        server,
        name_server,
    })
}

/// Imports the base `host` if it is missing, so that the first sandbox needs no download.
async fn import_default_base(host: &Host) -> Result<()> {
    let name = BaseName::new("host")?;
    if host
        .list_bases()
        .await?
        .iter()
        .any(|base| base.name == name)
    {
        return Ok(());
    }
    match host.import_base(&name, &ImportSource::Host, |_| {}).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == ErrorCode::BaseExists => Ok(()),
        Err(error) => {
            output::say(format_args!(
                "note: base `host` could not be imported: {}",
                describe(&error)
            ));
            Ok(())
        }
    }
}

/// Prints the chosen storage and runtime, the address, and first commands to try.
fn announce(
    host: &Host,
    address: SocketAddr,
    name_server: Option<&NameServer>,
    server: &ServerConfig,
    data_dir: &Path,
) {
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "sandbar".to_owned());
    output::say(format_args!("sandbar {}", env!("CARGO_PKG_VERSION")));
    output::say(format_args!("  storage  {}", host.storage_summary()));
    output::say(format_args!("  runtime  {}", host.runtime_summary()));
    output::say(format_args!("  data     {}", data_dir.display()));
    let (limits, defaults) = (host.capabilities().limits, host.default_limits());
    output::say(format_args!(
        "  limits   {} for each sandbox, unless it requests others",
        defaults.summary(&limits)
    ));
    for missing in &defaults.missing {
        output::say(format_args!(
            "note: sandboxes are not limited by default: {missing}"
        ));
    }
    if host.capabilities().runtime == RuntimeKind::None {
        output::say("note: commands are not isolated from this machine; run only what you trust");
    }
    if server.tls == TlsMode::Auto {
        let authority = authority::certificate_path(data_dir);
        output::say(format_args!(
            "  tls      {}: clients on other machines need it as --ca-file",
            authority.display()
        ));
    }
    if let Some(name_server) = name_server {
        let domain = host.ingress_domain();
        output::say(format_args!(
            "  dns      {} answers for {domain} and names below it",
            name_server.address()
        ));
    }
    let scheme = if server.speaks_tls() { "https" } else { "http" };
    output::say(format_args!("listening on {scheme}://{address}"));
    output::say("\nin another terminal:");
    if data_dir != discovery::default_data_dir() {
        output::say(format_args!(
            "  export {}={}",
            env_vars::DATA_DIR,
            output::shell_word(&data_dir.to_string_lossy())
        ));
    }
    if server.tls_cert_file.is_some() {
        let url = format!("https://NAME:{}", address.port());
        output::say(format_args!(
            "  export {}={url}   NAME as in the certificate",
            env_vars::URL
        ));
        output::say(format_args!(
            "  export {}=\"$(cat {})\"",
            env_vars::TOKEN,
            discovery::token_path(data_dir).display()
        ));
    }
    let program = output::shell_word(&program);
    output::say(format_args!(
        "  {program} run -- sh -c 'echo hello from a sandbox'"
    ));
    output::say(format_args!("  id=$({program} new)"));
    output::say(format_args!(
        "  {program} exec $id -- sh -c 'date > now.txt; cat now.txt'"
    ));
    output::say(format_args!("  {program} snapshot $id first"));
    output::say(format_args!("  {program} --help"));
    output::say(format_args!(
        "  eval \"$({program} env)\"   points the E2B SDKs at this host"
    ));
    output::say("\nstop with Ctrl-C; sandboxes are kept");
}
