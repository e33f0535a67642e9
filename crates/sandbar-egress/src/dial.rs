//! Connects to servers from the host's network.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use rustix::net::sockopt::set_socket_keepalive;
use sandbar_core::Transport;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{refusal::Refusal, rules::Rules};

/// Limit for all attempts of one connection together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time until the next address is tried in parallel (Happy Eyeballs, RFC 8305).
const NEXT_ADDRESS_DELAY: Duration = Duration::from_millis(250);

/// Number of addresses of a host that are tried.
const MAX_ADDRESSES: usize = 8;

/// Returns the addresses of an allowed name that the rules permit, in the order to try them: the
/// one that the session chose, then IPv4 and IPv6 alternately.
pub(crate) fn open_addresses(
    found: &[IpAddr],
    port: u16,
    chosen: Option<IpAddr>,
    rules: &Rules,
    own: &[IpAddr],
) -> Result<Vec<SocketAddr>, Refusal> {
    let (mut open, mut refusal) = (
        Vec::new(),
        Refusal::unreachable("the name has no address".to_owned()),
    );
    for address in found.iter().map(IpAddr::to_canonical) {
        let verdict = rules.resolved(Transport::Tcp, address, port, own);
        if verdict.is_allowed() {
            open.push(address);
        } else {
            refusal = Refusal::denied(verdict.reason().to_owned());
        }
    }
    if open.is_empty() {
        return Err(refusal);
    }
    // A stable sort keeps the order of the resolver within a family.
    let is_first_choice =
        |address: &IpAddr| chosen.is_some_and(|chosen| chosen.to_canonical() == *address);
    open.sort_by_key(|address| !is_first_choice(address));
    let starts_with_v4 = open.first().is_some_and(IpAddr::is_ipv4);
    let (same, other): (Vec<_>, Vec<_>) = open
        .into_iter()
        .partition(|address| address.is_ipv4() == starts_with_v4);
    let (mut same, mut other) = (same.into_iter(), other.into_iter());
    let alternating = std::iter::from_fn(|| match (same.next(), other.next()) {
        (None, None) => None,
        (first, second) => Some([first, second]),
    });
    Ok(alternating
        .flatten()
        .flatten()
        .map(|address| SocketAddr::new(address, port))
        .take(MAX_ADDRESSES)
        .collect())
}

/// Connects to the first of these addresses that accepts.
pub(crate) async fn connect(addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Refusal> {
    let answered = match timeout(CONNECT_TIMEOUT, race(addresses)).await {
        Ok(answered) => answered,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    answered.map_err(|error| Refusal::unreachable(error.kind().to_string()))
}

async fn race(addresses: &[SocketAddr]) -> io::Result<(TcpStream, SocketAddr)> {
    let mut waiting = addresses.iter().copied();
    let mut attempts = FuturesUnordered::new();
    let mut failure: io::Error = io::ErrorKind::AddrNotAvailable.into();
    loop {
        attempts.extend(waiting.next().map(attempt));
        tokio::select! {
            attempt = attempts.next() => match attempt {
                Some(Ok(connected)) => return Ok(connected),
                Some(Err(error)) => failure = error,
                None => return Err(failure),
            },
            () = sleep(NEXT_ADDRESS_DELAY), if waiting.len() > 0 => {}
        }
    }
}

async fn attempt(address: SocketAddr) -> io::Result<(TcpStream, SocketAddr)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    // Without keepalive, a server that disappears would hold a connection permit for ever.
    set_socket_keepalive(&stream, true)?;
    Ok((stream, address))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn rules(text: &str) -> Rules {
        Rules::new(text.parse().unwrap())
    }

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn ordered(found: &[&str], chosen: Option<&str>) -> Vec<String> {
        let chosen = chosen.map(|text| text.parse().unwrap());
        let open = open_addresses(&addresses(found), 443, chosen, &rules("full"), &[]).unwrap();
        open.into_iter()
            .map(|address| address.ip().to_string())
            .collect()
    }

    #[test]
    fn address_chosen_by_the_session_is_tried_first() {
        let found = ["2001:db8::1", "203.0.113.1", "203.0.113.2", "2001:db8::2"];
        assert_eq!(
            ordered(&found, None),
            ["2001:db8::1", "203.0.113.1", "2001:db8::2", "203.0.113.2"]
        );
        assert_eq!(
            ordered(&found, Some("203.0.113.2"))[..2],
            ["203.0.113.2", "2001:db8::1"]
        );
        assert_eq!(ordered(&found, Some("198.51.100.9")), ordered(&found, None));
    }

    #[test]
    fn denied_addresses_are_skipped() {
        assert_eq!(
            ordered(&["10.0.0.1", "203.0.113.1"], Some("10.0.0.1")),
            ["203.0.113.1"]
        );
        let refusal = open_addresses(
            &addresses(&["169.254.169.254"]),
            80,
            None,
            &rules("full"),
            &[],
        )
        .unwrap_err();
        assert!(
            refusal.denied && refusal.reason.contains("metadata"),
            "{refusal:?}"
        );
        assert!(
            !open_addresses(&[], 80, None, &rules("full"), &[])
                .unwrap_err()
                .denied
        );
    }

    #[tokio::test]
    async fn address_that_refuses_is_skipped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        // No listener has this loopback address.
        let shut = SocketAddr::new("127.0.0.2".parse().unwrap(), open.port());
        let (_, answered) = connect(&[shut, open]).await.unwrap();
        assert_eq!(answered, open);
        let refusal = connect(&[shut]).await.unwrap_err();
        assert_eq!(
            (refusal.denied, refusal.reason.as_str()),
            (false, "connection refused")
        );
    }
}
