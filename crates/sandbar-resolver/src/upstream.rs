//! Asking name servers.

use std::{
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hickory_proto::{
    op::{DnsRequestOptions, DnsResponse, Message, Query, ResponseCode},
    rr::{
        Name, Record, RecordType,
        domain::usage::{INVALID, ONION},
    },
};
use hickory_resolver::{
    NameServerPool, PoolContext, ResponseCache, TlsConfig, TtlConfig,
    config::{ConnectionConfig, NameServerConfig, ResolverOpts},
    net::{
        DnsError, NetError,
        runtime::TokioRuntimeProvider,
        xfer::{DnsHandle as _, FirstAnswer as _},
    },
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
/// Answers in the cache.
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

/// A configuration with its servers and their answers.
///
/// Each server has a hickory pool of its own. A pool of all would ask two servers at once and take the first answer, so that
/// an internal name fails whenever a public server says first that it does not exist; and it asks no other server when one
/// fails. As in the C library, the order of the file counts here, and the next server is asked when one cannot answer.
///
/// Hickory's `Resolver` is not used: it loses the aliases of an answer when the name they lead to is in its cache.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) conf: ResolvConf,
    servers: Vec<Server>,
    cache: ResponseCache,
}

struct Server {
    address: SocketAddr,
    /// Asks by UDP, and after a truncated answer by TCP. Equal questions at the same time are sent once.
    pool: NameServerPool<TokioRuntimeProvider>,
    /// The time the server last did not answer.
    failed_at: Mutex<Option<Instant>>,
}

/// The answer of a name server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) records: Vec<Record>,
    /// A name may exist without records of the type that was asked for.
    pub(crate) name_exists: bool,
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

    /// Asks one server after the other until one answers; "no such name" is an answer. Aliases are not followed.
    pub(crate) async fn ask(&self, name: &Name, kind: RecordType) -> Result<Answer, LookupError> {
        let Ok(Ok(_place)) = timeout(PLACE_TIMEOUT, self.places.acquire()).await else {
            return Err(LookupError::Failed("too many names are being looked up".to_owned()));
        };
        let configured = self.current();
        if INVALID.zone_of(name) || ONION.zone_of(name) {
            // Such names are never asked about (RFC 6761, RFC 7686).
            return Ok(Answer::default());
        }
        let query = Query::query(name.clone(), kind);
        if let Some(answer) = configured.cache.get(&query, Instant::now()).and_then(|known| Answer::of(&known)) {
            return Ok(answer);
        }
        let mut failure = "no name server is configured".to_owned();
        for _ in 0..configured.conf.attempts {
            for server in configured.in_order() {
                let outcome = server.ask(query.clone()).await;
                if let Some(answer) = Answer::of(&outcome) {
                    configured.cache.insert(query, outcome, Instant::now());
                    return Ok(answer);
                }
                failure = match outcome {
                    Ok(message) => format!("{}: {}", server.address, message.response_code),
                    Err(error) => format!("{}: {error}", server.address),
                };
            }
        }
        Err(LookupError::Failed(failure))
    }
}

impl Answer {
    /// Returns the answer in what came of a question, unless that is a failure.
    fn of(outcome: &Result<Message, NetError>) -> Option<Self> {
        let (code, records) = match outcome {
            Ok(message) => (message.response_code, message.answers.clone()),
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) => (none.response_code, Vec::new()),
            Err(_) => return None,
        };
        match code {
            ResponseCode::NoError => Some(Self { records, name_exists: true }),
            ResponseCode::NXDomain => Some(Self { records, name_exists: false }),
            _ => None,
        }
    }
}

impl Configured {
    fn new(conf: ResolvConf) -> Self {
        let mut options = ResolverOpts::default();
        options.timeout = conf.timeout;
        options.max_active_requests = MAX_QUESTIONS;
        options.positive_min_ttl = Some(MIN_TTL);
        options.positive_max_ttl = Some(MAX_TTL);
        options.negative_min_ttl = Some(NEGATIVE_TTL);
        options.negative_max_ttl = Some(NEGATIVE_TTL);
        let cache = ResponseCache::new(MAX_CACHED, TtlConfig::from_opts(&options));
        let servers = match TlsConfig::new() {
            Ok(tls) => {
                let context = Arc::new(PoolContext::new(options, tls));
                conf.servers.iter().map(|address| Server::new(*address, &context)).collect()
            }
            Err(error) => {
                tracing::warn!(%error, "name servers not usable");
                Vec::new()
            }
        };
        Self { conf, servers, cache }
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
    fn new(address: SocketAddr, context: &Arc<PoolContext>) -> Self {
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
            connection.port = address.port();
            connection
        });
        let config = NameServerConfig::new(address.ip(), true, connections.to_vec());
        let pool = NameServerPool::from_config([config], Arc::clone(context), TokioRuntimeProvider::default());
        Self { address, pool, failed_at: Mutex::default() }
    }

    async fn ask(&self, query: Query) -> Result<Message, NetError> {
        let outcome = self.pool.lookup(query, DnsRequestOptions::default()).first_answer().await;
        if matches!(&outcome, Err(error) if !matches!(error, NetError::Dns(_))) {
            *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        outcome.map(DnsResponse::into_message)
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

#[cfg(test)]
mod tests;
