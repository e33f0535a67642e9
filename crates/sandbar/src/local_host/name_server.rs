//! The name server of `sandbar up` for the host's domain.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sandbar_core::{DomainName, Error, ErrorCode, Result};
use sandbar_egress::{NameServer, Zone};

/// Starts a name server that answers with the address of the host: `host`, or `advertised` if the
/// host listens on all addresses.
pub(crate) async fn start(
    listen: SocketAddr,
    domain: &DomainName,
    host: IpAddr,
    advertised: &str,
) -> Result<NameServer> {
    let zone = Zone::new(domain, addresses(host, advertised));
    NameServer::start(listen, zone).await.map_err(|source| {
        Error::new(ErrorCode::InvalidArgument, format!("name server cannot listen on {listen}"))
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
        // Without an advertised address only this machine can be served.
        _ if host.is_ipv4() => vec![Ipv4Addr::LOCALHOST.into()],
        _ => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_resolve_to_the_listen_or_advertised_address() {
        let of = |host: &str, advertised: &str| {
            addresses(host.parse().unwrap(), advertised)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("127.0.0.1", "192.0.2.7"), ["127.0.0.1"]);
        assert_eq!(of("0.0.0.0", "192.0.2.7"), ["192.0.2.7"]);
        assert_eq!(of("0.0.0.0", "machine.example"), ["127.0.0.1"]);
        assert_eq!(of("::", "127.0.0.1"), ["127.0.0.1", "::1"]);
    }
}
