//! Looks up addresses and records of names.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hickory_proto::{
    op::Query,
    rr::{Name, RData, Record, RecordType},
};
use hickory_resolver::{Hosts, lookup::Lookup};
use sandbar_core::DomainName;

use crate::{
    changing_file::ChangingFile,
    config::parse_hosts,
    upstream::{MAX_TTL, MIN_TTL, NEGATIVE_TTL, Upstream},
};

const HOSTS_FILE: &str = "/etc/hosts";
const RESOLV_CONF: &str = "/etc/resolv.conf";

const MAX_ALIASES: usize = 8;
const MAX_ADDRESSES: usize = 64;
/// TTL of names in the hosts file, which may change at any time.
const HOSTS_TTL: Duration = Duration::from_mins(1);

/// Resolver: looks names up in the hosts file, then with name servers.
#[derive(Debug)]
pub struct Resolver {
    hosts: ChangingFile<Hosts>,
    upstream: Upstream,
}

/// Reason why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupError {
    NotFound,
    /// No name server answered.
    Failed(String),
}

/// Addresses of a name that exists. There may be none.
#[derive(Clone, Debug)]
pub struct Found {
    pub addresses: Vec<IpAddr>,
    pub until: Instant,
}

impl Resolver {
    /// Resolves as this machine is configured to, by `/etc/hosts` and `/etc/resolv.conf`. Changes
    /// of these files take effect at once.
    pub fn system() -> Self {
        Self::new(
            Upstream::of_file(PathBuf::from(RESOLV_CONF)),
            Path::new(HOSTS_FILE),
        )
    }

    /// Resolves with the hosts file and the given name servers.
    pub fn with_servers(servers: Vec<SocketAddr>) -> Self {
        Self::with_servers_and_hosts(servers, Path::new(HOSTS_FILE))
    }

    /// Like [`with_servers`](Self::with_servers), with another hosts file.
    pub fn with_servers_and_hosts(servers: Vec<SocketAddr>, hosts: &Path) -> Self {
        Self::new(Upstream::of_servers(servers), hosts)
    }

    fn new(upstream: Upstream, hosts: &Path) -> Self {
        Self {
            hosts: ChangingFile::new(hosts.to_owned(), parse_hosts),
            upstream,
        }
    }

    /// Returns the addresses of a host as a user writes it: an address, a name, or a name to be
    /// completed by the search domains. The list is never empty.
    pub async fn addresses_of(&self, host: &str) -> Result<Vec<IpAddr>, LookupError> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let relative = host.strip_suffix('.').unwrap_or(host);
        let name: DomainName = relative.parse().map_err(|_| LookupError::NotFound)?;
        if let Some(addresses) = self.local(&name) {
            return Ok(addresses);
        }
        let names = if relative == host {
            self.candidates(name)
        } else {
            vec![name]
        };
        let mut failure = LookupError::NotFound;
        for name in names {
            match self.lookup(&name).await {
                Ok(addresses) => return Ok(addresses),
                Err(error @ LookupError::Failed(_)) => failure = error,
                Err(LookupError::NotFound) => {}
            }
        }
        Err(failure)
    }

    /// Returns the addresses of a fully qualified name, IPv4 and IPv6. The list is never empty.
    pub async fn lookup(&self, name: &DomainName) -> Result<Vec<IpAddr>, LookupError> {
        let found = self.find(name).await?;
        if found.addresses.is_empty() {
            Err(LookupError::NotFound)
        } else {
            Ok(found.addresses)
        }
    }

    /// Like [`lookup`](Self::lookup), where a name may exist and have no address.
    pub async fn find(&self, name: &DomainName) -> Result<Found, LookupError> {
        if let Some(addresses) = self.local(name) {
            return Ok(Found {
                addresses,
                until: Instant::now() + HOSTS_TTL,
            });
        }
        let name = absolute(name)?;
        let (v4, v6) = futures::join!(
            self.family(&name, RecordType::A),
            self.family(&name, RecordType::AAAA)
        );
        let (addresses, ttl) = joined(v4, v6)?;
        Ok(Found {
            addresses,
            until: Instant::now() + ttl,
        })
    }

    /// Returns the records of a fully qualified name, and the aliases that a name server returns
    /// with them. The hosts file is not used.
    pub async fn records(
        &self,
        name: &DomainName,
        kind: RecordType,
    ) -> Result<Vec<Record>, LookupError> {
        let answer = self.upstream.ask(&absolute(name)?, kind).await?;
        if answer.name_exists {
            Ok(answer.records)
        } else {
            Err(LookupError::NotFound)
        }
    }

    /// Resolves names that need no name server: those of the hosts file, and `localhost` with every
    /// name below it.
    fn local(&self, name: &DomainName) -> Option<Vec<IpAddr>> {
        let hosts = self.hosts.current();
        let query_name = absolute(name).ok()?;
        let of_kind = |kind| hosts.lookup_static_host(&Query::query(query_name.clone(), kind));
        let found: Vec<_> = [RecordType::A, RecordType::AAAA]
            .into_iter()
            .filter_map(of_kind)
            .collect();
        if !found.is_empty() {
            return Some(distinct(
                found.iter().flat_map(Lookup::answers).filter_map(address),
            ));
        }
        let is_loopback = name
            .as_str()
            .strip_suffix("localhost")
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        is_loopback.then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
    }

    /// Returns the fully qualified names that a relative name may stand for, in lookup order.
    fn candidates(&self, name: DomainName) -> Vec<DomainName> {
        let configured = self.upstream.current();
        let in_domain = |domain: &DomainName| format!("{name}.{domain}").parse().ok();
        let mut names: Vec<DomainName> = configured
            .conf
            .search
            .iter()
            .filter_map(in_domain)
            .collect();
        let is_first = name.as_str().matches('.').count() >= configured.conf.ndots;
        names.insert(if is_first { 0 } else { names.len() }, name);
        names
    }

    /// Returns the addresses of one family. Queries again if an answer ends with an alias.
    async fn family(&self, start: &Name, kind: RecordType) -> Result<Family, LookupError> {
        let mut name = start.clone();
        let mut ttl = MAX_TTL;
        let mut aliases = 0;
        loop {
            let queried = name.clone();
            let answer = self.upstream.ask(&queried, kind).await?;
            while let Some((target, alias_ttl)) = alias(&answer.records, &name) {
                aliases += 1;
                if aliases > MAX_ALIASES {
                    return Err(LookupError::Failed(
                        "the name has too many aliases".to_owned(),
                    ));
                }
                ttl = ttl.min(seconds(alias_ttl));
                name = target.clone();
            }
            // An answer may contain other records. They are ignored: a server is trusted only for
            // the name that was queried.
            let is_found = |record: &&Record| record.name == name && record.record_type() == kind;
            let found: Vec<&Record> = answer
                .records
                .iter()
                .filter(is_found)
                .take(MAX_ADDRESSES)
                .collect();
            if !found.is_empty() {
                let ttl = found
                    .iter()
                    .map(|record| seconds(record.ttl))
                    .fold(ttl, Duration::min);
                return Ok((
                    found.into_iter().filter_map(address).collect(),
                    ttl.max(MIN_TTL),
                ));
            }
            if !answer.name_exists {
                return Err(LookupError::NotFound);
            }
            if name == queried {
                return Ok((Vec::new(), NEGATIVE_TTL));
            }
        }
    }
}

/// Addresses of one family, and their TTL.
type Family = (Vec<IpAddr>, Duration);

/// Returns the target of an alias, and its TTL.
fn alias<'a>(records: &'a [Record], name: &Name) -> Option<(&'a Name, u32)> {
    records.iter().find_map(|record| match &record.data {
        RData::CNAME(target) if record.name == *name => Some((&target.0, record.ttl)),
        _ => None,
    })
}

fn seconds(ttl: u32) -> Duration {
    Duration::from_secs(ttl.into())
}

/// Combines both families. If only one is known, its addresses are used for a short time.
fn joined(
    v4: Result<Family, LookupError>,
    v6: Result<Family, LookupError>,
) -> Result<Family, LookupError> {
    match (v4, v6) {
        (Ok(v4), Ok(v6)) => {
            let ttls = [&v4, &v6]
                .into_iter()
                .filter(|(addresses, _)| !addresses.is_empty())
                .map(|(_, ttl)| *ttl);
            let ttl = ttls.min().unwrap_or(NEGATIVE_TTL);
            Ok((distinct(v4.0.into_iter().chain(v6.0)), ttl))
        }
        (Ok((addresses, ttl)), Err(_)) | (Err(_), Ok((addresses, ttl)))
            if !addresses.is_empty() =>
        {
            Ok((distinct(addresses), ttl.min(NEGATIVE_TTL)))
        }
        (Err(failed @ LookupError::Failed(_)), _) | (_, Err(failed @ LookupError::Failed(_))) => {
            Err(failed)
        }
        _ => Err(LookupError::NotFound),
    }
}

/// Returns the address of a record in canonical form: rules must see an IPv4-mapped address
/// (`::ffff:…`) as IPv4.
fn address(record: &Record) -> Option<IpAddr> {
    record.data.ip_addr().map(|address| address.to_canonical())
}

fn distinct(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut known = Vec::new();
    for address in addresses {
        if !known.contains(&address) {
            known.push(address);
        }
    }
    known
}

fn absolute(name: &DomainName) -> Result<Name, LookupError> {
    Name::from_labels(name.as_str().split('.').map(str::as_bytes))
        .map_err(|error| LookupError::Failed(error.to_string()))
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("name not found"),
            Self::Failed(reason) => write!(f, "name lookup failed: {reason}"),
        }
    }
}

impl std::error::Error for LookupError {}

#[cfg(test)]
mod tests;
