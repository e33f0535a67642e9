//! The name server of `sandbar up`: where the names below the host's domain lead.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sandbar_core::{DomainName, Error, ErrorCode, Result};
use sandbar_net::{NameServer, Zone};

/// Answers for the domain of a host that listens on `host`. `advertised` is what a host that listens everywhere is called.
pub(crate) async fn start(
    listen: SocketAddr,
    domain: &DomainName,
    host: IpAddr,
    advertised: &str,
) -> Result<NameServer> {
    let zone = Zone::new(domain, addresses(host, advertised));
    NameServer::start(listen, zone).await.map_err(|source| {
        Error::new(ErrorCode::InvalidArgument, format!("cannot answer for names on {listen}"))
            .with_field("dns_listen")
            .with_hint("choose another port with `--dns`, for example 127.0.0.1:5353; those below 1024 need root")
            .with_source(source)
    })
}

fn addresses(host: IpAddr, advertised: &str) -> Vec<IpAddr> {
    if !host.is_unspecified() {
        return vec![host];
    }
    match advertised.parse::<IpAddr>() {
        Ok(address) if !address.is_loopback() => vec![address],
        // Nobody said how others reach this machine; it can reach itself.
        _ if host.is_ipv4() => vec![Ipv4Addr::LOCALHOST.into()],
        _ => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_where_the_host_listens_or_where_it_says_it_is() {
        let of = |host: &str, advertised: &str| {
            addresses(host.parse().unwrap(), advertised).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of("127.0.0.1", "192.0.2.7"), ["127.0.0.1"]);
        assert_eq!(of("0.0.0.0", "192.0.2.7"), ["192.0.2.7"]);
        assert_eq!(of("0.0.0.0", "machine.example"), ["127.0.0.1"]);
        assert_eq!(of("::", "127.0.0.1"), ["127.0.0.1", "::1"]);
    }
}
