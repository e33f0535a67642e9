//! Queries name servers.

use std::{
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
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
use sandbar_core::MutexExt as _;
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    LookupError,
    changing_file::ChangingFile,
    config::{ResolvConf, parse_resolv_conf},
};

/// Concurrent queries, so that sessions cannot exhaust the host's descriptors.
const MAX_QUERIES: usize = 1024;
/// Time a query waits while that many are running.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);
/// Answers in the cache.
const MAX_CACHED: u64 = 10_000;
/// Time for which a server that did not answer is queried last.
const DOWN_TIME: Duration = Duration::from_secs(10);

/// TTL bounds of answers. Negative answers have a short TTL, because the name may be about to be
/// created.
pub(crate) const MIN_TTL: Duration = Duration::from_secs(1);
pub(crate) const MAX_TTL: Duration = Duration::from_mins(5);
pub(crate) const NEGATIVE_TTL: Duration = Duration::from_secs(2);

/// Name servers and the limit of concurrent queries.
#[derive(Debug)]
pub(crate) struct Upstream {
    source: Source,
    queries: Semaphore,
}

#[derive(Debug)]
enum Source {
    Fixed(Arc<Configured>),
    /// A file like `/etc/resolv.conf`.
    File(ChangingFile<Configured>),
}

/// A configuration with its servers and their answers.
///
/// Each server has its own hickory pool. A pool of all servers would query two at once and take the
/// first answer: an internal name would fail whenever a public server is first to answer NXDOMAIN.
/// It would also not query another server when one fails. As in the C library, servers are queried
/// in the order of the file, and the next one when one cannot answer.
///
/// Hickory's `Resolver` is not used: it drops the aliases of an answer when their target is in its
/// cache.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) conf: ResolvConf,
    servers: Vec<Server>,
    cache: ResponseCache,
}

struct Server {
    address: SocketAddr,
    /// Queries by UDP, and after a truncated answer by TCP. Equal concurrent queries are sent once.
    pool: NameServerPool<TokioRuntimeProvider>,
    /// Time of the last query without an answer.
    failed_at: Mutex<Option<Instant>>,
}

/// The answer of a name server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) records: Vec<Record>,
    /// A name may exist without records of the requested type.
    pub(crate) name_exists: bool,
}

impl Upstream {
    pub(crate) fn of_file(path: PathBuf) -> Self {
        Self::of(Source::File(ChangingFile::new(path, |text| {
            Configured::new(parse_resolv_conf(text))
        })))
    }

    pub(crate) fn of_servers(servers: Vec<SocketAddr>) -> Self {
        Self::of_conf(ResolvConf::of_servers(servers))
    }

    pub(crate) fn of_conf(conf: ResolvConf) -> Self {
        Self::of(Source::Fixed(Arc::new(Configured::new(conf))))
    }

    const fn of(source: Source) -> Self {
        Self {
            source,
            queries: Semaphore::const_new(MAX_QUERIES),
        }
    }

    pub(crate) fn current(&self) -> Arc<Configured> {
        match &self.source {
            Source::Fixed(configured) => Arc::clone(configured),
            Source::File(file) => file.current(),
        }
    }

    /// Queries one server after the other until one answers; NXDOMAIN is an answer. Aliases are not
    /// followed.
    pub(crate) async fn ask(&self, name: &Name, kind: RecordType) -> Result<Answer, LookupError> {
        let Ok(Ok(_permit)) = timeout(QUEUE_TIMEOUT, self.queries.acquire()).await else {
            return Err(LookupError::Failed(
                "limit of concurrent lookups reached".to_owned(),
            ));
        };
        let configured = self.current();
        if INVALID.zone_of(name) || ONION.zone_of(name) {
            // Such names are never sent to a server (RFC 6761, RFC 7686).
            return Ok(Answer::default());
        }
        let query = Query::query(name.clone(), kind);
        if let Some(answer) = configured
            .cache
            .get(&query, Instant::now())
            .and_then(|known| Answer::of(&known))
        {
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
    /// Returns the answer of a query; `None` if it failed.
    fn of(outcome: &Result<Message, NetError>) -> Option<Self> {
        let (code, records) = match outcome {
            Ok(message) => (message.response_code, message.answers.clone()),
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) => (none.response_code, Vec::new()),
            Err(_) => return None,
        };
        match code {
            ResponseCode::NoError => Some(Self {
                records,
                name_exists: true,
            }),
            ResponseCode::NXDomain => Some(Self {
                records,
                name_exists: false,
            }),
            _ => None,
        }
    }
}

impl Configured {
    fn new(conf: ResolvConf) -> Self {
        let mut options = ResolverOpts::default();
        options.timeout = conf.timeout;
        options.max_active_requests = MAX_QUERIES;
        options.positive_min_ttl = Some(MIN_TTL);
        options.positive_max_ttl = Some(MAX_TTL);
        options.negative_min_ttl = Some(NEGATIVE_TTL);
        options.negative_max_ttl = Some(NEGATIVE_TTL);
        let cache = ResponseCache::new(MAX_CACHED, TtlConfig::from_opts(&options));
        let servers = match TlsConfig::new() {
            Ok(tls) => {
                let context = Arc::new(PoolContext::new(options, tls));
                conf.servers
                    .iter()
                    .map(|address| Server::new(*address, &context))
                    .collect()
            }
            Err(error) => {
                tracing::warn!(%error, "could not set up the name servers");
                Vec::new()
            }
        };
        Self {
            conf,
            servers,
            cache,
        }
    }

    /// Returns the servers in the order of the configuration; those that recently did not answer
    /// come last.
    fn in_order(&self) -> Vec<&Server> {
        let now = Instant::now();
        let mut servers: Vec<&Server> = self.servers.iter().collect();
        servers.sort_by_cached_key(|server| server.is_down(now));
        servers
    }
}

impl Server {
    fn new(address: SocketAddr, context: &Arc<PoolContext>) -> Self {
        let connections =
            [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = address.port();
                connection
            });
        let config = NameServerConfig::new(address.ip(), true, connections.to_vec());
        let pool = NameServerPool::from_config(
            [config],
            Arc::clone(context),
            TokioRuntimeProvider::default(),
        );
        Self {
            address,
            pool,
            failed_at: Mutex::default(),
        }
    }

    async fn ask(&self, query: Query) -> Result<Message, NetError> {
        let outcome = self
            .pool
            .lookup(query, DnsRequestOptions::default())
            .first_answer()
            .await;
        if matches!(&outcome, Err(error) if !matches!(error, NetError::Dns(_))) {
            *self.failed_at.lock_unpoisoned() = Some(Instant::now());
        }
        outcome.map(DnsResponse::into_message)
    }

    fn is_down(&self, now: Instant) -> bool {
        let failed_at = *self.failed_at.lock_unpoisoned();
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
