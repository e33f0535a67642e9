//! Asking name servers.

use std::{
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hickory_proto::{
    op::ResponseCode,
    rr::{Name, Record, RecordType},
};
use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    LookupError,
    changing_file::ChangingFile,
    config::{ResolvConf, parse_resolv_conf},
};

/// Questions at once, so that sessions cannot use up the host's descriptors.
const MAX_QUESTIONS: usize = 1024;
/// Time a question waits for one of those places.
const PLACE_TIMEOUT: Duration = Duration::from_secs(2);
/// Answers kept by each server's cache.
const MAX_CACHED: u64 = 10_000;
/// Time a server that did not answer is asked last.
const DOWN_TIME: Duration = Duration::from_secs(10);

/// TTL bounds of answers, and the TTL of "no such name", which the owner of a name may be about to change.
pub(crate) const MIN_TTL: Duration = Duration::from_secs(1);
pub(crate) const MAX_TTL: Duration = Duration::from_mins(5);
pub(crate) const NEGATIVE_TTL: Duration = Duration::from_secs(2);

/// The name servers that are asked.
#[derive(Debug)]
pub(crate) struct Upstream {
    source: Source,
    places: Semaphore,
}

#[derive(Debug)]
enum Source {
    Fixed(Arc<Configured>),
    /// A file like `/etc/resolv.conf`.
    File(ChangingFile<Configured>),
}

/// A configuration and a hickory resolver for each of its servers.
///
/// Hickory's own pool asks two servers at once and takes the first answer, so an internal name fails whenever a public
/// server says first that it does not exist; and it asks no other server when one fails. As in the C library, the order of
/// the file counts here, and the next server is asked when one cannot answer.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) conf: ResolvConf,
    servers: Vec<Server>,
}

struct Server {
    address: SocketAddr,
    resolver: TokioResolver,
    /// The time the server last did not answer.
    failed_at: Mutex<Option<Instant>>,
}

impl Upstream {
    pub(crate) fn of_file(path: PathBuf) -> Self {
        Self::of(Source::File(ChangingFile::new(path, |text| Configured::new(parse_resolv_conf(text)))))
    }

    pub(crate) fn of_servers(servers: Vec<SocketAddr>) -> Self {
        Self::of_conf(ResolvConf::of_servers(servers))
    }

    pub(crate) fn of_conf(conf: ResolvConf) -> Self {
        Self::of(Source::Fixed(Arc::new(Configured::new(conf))))
    }

    const fn of(source: Source) -> Self {
        Self { source, places: Semaphore::const_new(MAX_QUESTIONS) }
    }

    pub(crate) fn current(&self) -> Arc<Configured> {
        match &self.source {
            Source::Fixed(configured) => Arc::clone(configured),
            Source::File(file) => file.current(),
        }
    }

    /// Asks one server after the other until one answers; "no such name" is an answer. A name without records of this type
    /// has none.
    pub(crate) async fn ask(&self, name: &Name, kind: RecordType) -> Result<Vec<Record>, LookupError> {
        let Ok(Ok(_place)) = timeout(PLACE_TIMEOUT, self.places.acquire()).await else {
            return Err(LookupError::Failed("too many names are being looked up".to_owned()));
        };
        let configured = self.current();
        let mut failure = "no name server is configured".to_owned();
        for _ in 0..configured.conf.attempts {
            for server in configured.in_order() {
                match server.resolver.lookup(name.clone(), kind).await {
                    Ok(lookup) => return Ok(lookup.answers().to_vec()),
                    Err(NetError::Dns(DnsError::NoRecordsFound(none))) => match none.response_code {
                        ResponseCode::NoError => return Ok(Vec::new()),
                        ResponseCode::NXDomain => return Err(LookupError::NotFound),
                        code => failure = format!("{}: {code}", server.address),
                    },
                    Err(error) => {
                        if !matches!(error, NetError::Dns(_)) {
                            server.has_failed();
                        }
                        failure = format!("{}: {error}", server.address);
                    }
                }
            }
        }
        Err(LookupError::Failed(failure))
    }
}

impl Configured {
    fn new(conf: ResolvConf) -> Self {
        let server = |address: &SocketAddr| match resolver(*address, &conf) {
            Ok(resolver) => Some(Server { address: *address, resolver, failed_at: Mutex::default() }),
            Err(error) => {
                tracing::warn!(%address, %error, "name server not usable");
                None
            }
        };
        let servers = conf.servers.iter().filter_map(server).collect();
        Self { conf, servers }
    }

    /// The servers in the order of the configuration; those that did not answer lately come last.
    fn in_order(&self) -> Vec<&Server> {
        let now = Instant::now();
        let mut servers: Vec<&Server> = self.servers.iter().collect();
        servers.sort_by_cached_key(|server| server.is_down(now));
        servers
    }
}

impl Server {
    fn has_failed(&self) {
        *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_down(&self, now: Instant) -> bool {
        let failed_at = *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        failed_at.is_some_and(|time| now.saturating_duration_since(time) < DOWN_TIME)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.address).finish()
    }
}

/// A hickory resolver that asks one server, by UDP and after a truncated answer by TCP. It keeps answers for their time, and
/// sends equal questions at the same time once.
fn resolver(address: SocketAddr, conf: &ResolvConf) -> Result<TokioResolver, NetError> {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    let server = NameServerConfig::new(address.ip(), true, connections.to_vec());
    let config = ResolverConfig::from_name_servers(vec![server]);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.timeout = conf.timeout;
    // Attempts are counted over all servers.
    options.attempts = 0;
    options.edns0 = true;
    options.use_hosts_file = ResolveHosts::Never;
    options.cache_size = MAX_CACHED;
    options.max_active_requests = MAX_QUESTIONS;
    options.preserve_intermediates = true;
    options.positive_min_ttl = Some(MIN_TTL);
    options.positive_max_ttl = Some(MAX_TTL);
    options.negative_min_ttl = Some(NEGATIVE_TTL);
    options.negative_max_ttl = Some(NEGATIVE_TTL);
    builder.build()
}

#[cfg(test)]
mod tests;
