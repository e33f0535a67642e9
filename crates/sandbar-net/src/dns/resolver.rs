//! Where names lead.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use sandbar_core::{DomainName, Error, Result};

use super::{
    cache::Cache,
    hosts_file::HostsFile,
    message::{Message, Question, code},
    name::WireName,
    record::{Record, kind},
    servers::Servers,
    upstream::Upstream,
};
use crate::GatewaySettings;

const MOST_KEPT: usize = 10_000;
const MOST_ALIASES: usize = 8;
const MOST_ADDRESSES: usize = 64;
const LONGEST_LIFE: u32 = 300;
/// For names that are not there, and for answers of which a part is missing.
const SHORT_LIFE: u32 = 2;
/// For names of the hosts file, which may change at any time.
const HOSTS_LIFE: Duration = Duration::from_mins(1);
/// From this many on, lookups nobody waits for any longer are swept out.
const MANY_IN_FLIGHT: usize = 1000;

/// Looks names up for the gateway and all its sessions.
#[derive(Debug)]
pub(crate) struct Resolver(Arc<Inner>);

/// Why a name leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LookupError {
    NotFound,
    Failed(String),
}

/// Where a name leads. It may lead nowhere and still be there.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) addresses: Arc<[IpAddr]>,
    pub(super) until: Instant,
}

type Lookup = Result<Found, LookupError>;
type Flight = Shared<BoxFuture<'static, Lookup>>;

struct Inner {
    hosts: HostsFile,
    upstream: Upstream,
    cache: Mutex<Cache<Lookup>>,
    /// Lookups under way. Whoever wants the same waits for the same; it ends when nobody waits.
    in_flight: Mutex<HashMap<DomainName, WeakShared<BoxFuture<'static, Lookup>>>>,
}

impl Resolver {
    pub(crate) fn new(settings: &GatewaySettings) -> Result<Self> {
        if let Some(server) =
            settings.dns_servers.iter().find(|server| server.port() == 0 || server.ip().is_unspecified())
        {
            return Err(Error::invalid("dns_servers", format!("no name server can be at `{server}`"))
                .with_hint("write an address and a port, such as `192.0.2.53:53`"));
        }
        let servers = if settings.dns_servers.is_empty() {
            Servers::of_file(PathBuf::from("/etc/resolv.conf"))
        } else {
            Servers::Fixed(Arc::new(settings.dns_servers.clone()))
        };
        Ok(Self::with(servers, PathBuf::from("/etc/hosts")))
    }

    pub(super) fn with(servers: Servers, hosts: PathBuf) -> Self {
        Self(Arc::new(Inner {
            hosts: HostsFile::new(hosts),
            upstream: Upstream::new(servers),
            cache: Mutex::new(Cache::new(MOST_KEPT)),
            in_flight: Mutex::default(),
        }))
    }

    /// The addresses of a name, IPv4 and IPv6. Never none.
    pub(crate) async fn lookup(&self, name: &DomainName) -> Result<Arc<[IpAddr]>, LookupError> {
        let found = self.find(name).await?;
        if found.addresses.is_empty() { Err(LookupError::NotFound) } else { Ok(found.addresses) }
    }

    pub(super) async fn find(&self, name: &DomainName) -> Lookup {
        let now = Instant::now();
        if let Some(addresses) = self.0.hosts.addresses_of(name) {
            return Ok(Found { addresses, until: now + HOSTS_LIFE });
        }
        let known = lock(&self.0.cache).get(name, now);
        match known {
            Some(known) => known,
            None => self.flight(name).await,
        }
    }

    /// What the servers say to a question of a kind that leads to no address.
    pub(super) async fn ask(&self, name: &DomainName, kind: u16) -> Result<Message, LookupError> {
        self.0.upstream.ask(&Question::about(name.into(), kind)).await.map_err(LookupError::Failed)
    }

    fn flight(&self, name: &DomainName) -> Flight {
        let mut in_flight = lock(&self.0.in_flight);
        if let Some(flight) = in_flight.get(name).and_then(WeakShared::upgrade) {
            return flight;
        }
        if in_flight.len() >= MANY_IN_FLIGHT {
            in_flight.retain(|_, flight| flight.upgrade().is_some());
        }
        let flight = Arc::clone(&self.0).fetch(name.clone()).boxed().shared();
        in_flight.extend(flight.downgrade().map(|flight| (name.clone(), flight)));
        flight
    }
}

impl Inner {
    async fn fetch(self: Arc<Self>, name: DomainName) -> Lookup {
        let start = WireName::from(&name);
        let (v4, v6) = futures::join!(self.follow(&start, kind::A), self.follow(&start, kind::AAAA));
        let now = Instant::now();
        let until = |life: u32| now + Duration::from_secs(life.clamp(1, LONGEST_LIFE).into());
        let lookup = joined(v4, v6).map(|led| Found { addresses: led.addresses.into(), until: until(led.life) });
        let kept_until = match &lookup {
            Ok(found) => Some(found.until),
            Err(LookupError::NotFound) => Some(until(SHORT_LIFE)),
            // Those who ask later try again.
            Err(LookupError::Failed(_)) => None,
        };
        if let Some(until) = kept_until {
            lock(&self.cache).put(name.clone(), lookup.clone(), until, now);
        }
        lock(&self.in_flight).remove(&name);
        lookup
    }

    /// Asks for the addresses of one family, and goes on where an answer ends with another name.
    async fn follow(&self, start: &WireName, kind: u16) -> Result<Led, LookupError> {
        let mut name = start.clone();
        let mut aliases = 0;
        let mut life = LONGEST_LIFE;
        loop {
            let question = Question::about(name.clone(), kind);
            let answer = self.upstream.ask(&question).await.map_err(LookupError::Failed)?;
            while let Some(alias) =
                answer.answers.iter().find(|record| record.name == name && record.kind == kind::CNAME)
            {
                aliases += 1;
                if aliases > MOST_ALIASES {
                    return Err(LookupError::Failed("the name has too many aliases".to_owned()));
                }
                life = life.min(alias.ttl);
                name = alias.alias_of().ok_or_else(|| LookupError::Failed("an alias is malformed".to_owned()))?;
            }
            let found = answer.answers.iter().filter(|record| record.name == name && record.kind == kind);
            let found: Vec<&Record> = found.take(MOST_ADDRESSES).collect();
            if !found.is_empty() {
                life = found.iter().map(|record| record.ttl).fold(life, u32::min);
                return Ok(Led { addresses: found.into_iter().filter_map(Record::address).collect(), life });
            }
            if answer.head.code() == code::NO_SUCH_NAME {
                return Err(LookupError::NotFound);
            }
            if name == question.name {
                return Ok(Led { addresses: Vec::new(), life: SHORT_LIFE });
            }
        }
    }
}

/// Where a name leads in one family, and for how many seconds that holds.
struct Led {
    addresses: Vec<IpAddr>,
    life: u32,
}

/// Both families together. What is there counts, for a short time, also where the other family is not known.
fn joined(v4: Result<Led, LookupError>, v6: Result<Led, LookupError>) -> Result<Led, LookupError> {
    let mut led = match (v4, v6) {
        (Ok(v4), Ok(v6)) => {
            let lives = [&v4, &v6].into_iter().filter(|led| !led.addresses.is_empty()).map(|led| led.life);
            Led { life: lives.min().unwrap_or(SHORT_LIFE), addresses: [v4.addresses, v6.addresses].concat() }
        }
        (Ok(led), Err(_)) | (Err(_), Ok(led)) if !led.addresses.is_empty() => {
            Led { life: led.life.min(SHORT_LIFE), ..led }
        }
        (Err(failed @ LookupError::Failed(_)), _) | (_, Err(failed @ LookupError::Failed(_))) => return Err(failed),
        _ => return Err(LookupError::NotFound),
    };
    let mut known = Vec::new();
    led.addresses.retain(|address| {
        !known.contains(address) && {
            known.push(*address);
            true
        }
    });
    Ok(led)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("hosts", &self.hosts).field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
