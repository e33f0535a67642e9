//! Serves one TCP connection of a session.

use std::{net::SocketAddr, sync::Arc};

use sandbar_core::{DomainName, NetworkProtocol, Transport};
use sandbar_netns::{GATEWAY_V4, GATEWAY_V6, PROXY_PORT};
use tokio::{net::TcpStream, time::timeout};

use super::{
    dns_flow,
    first_bytes::{
        CUT_SHORT, FIRST_BYTES_TIMEOUT, FirstSpeaker, SILENCE_TIMEOUT, first_speaker,
        may_be_complete, read_opening, relay_watching,
    },
    metered::Metered,
    proxy_flow,
    refuse::{NO_SESSION_CA, refuse_silently, refuse_tls},
    relay::relay,
};
use crate::{
    egress_context::EgressContext,
    http::{Origin, intercept, serve_http},
    refusal::Refusal,
    rules::{Rules, Verdict},
    session_egress::{Attempt, SessionEgress},
    sniff::{ClientHello, Opening, Sni, may_carry_name},
};

/// Serves a connection whose original destination is `to`.
pub(super) async fn serve(session: Arc<SessionEgress>, client: TcpStream, to: SocketAddr) {
    // Without Nagle delay, small writes are forwarded at once.
    let _ = client.set_nodelay(true);
    let is_gateway = to.ip() == GATEWAY_V4 || to.ip() == GATEWAY_V6;
    match to.port() {
        dns_flow::PORT => dns_flow::answer_connection(&session, client).await,
        PROXY_PORT if is_gateway => proxy_flow::serve(session, client).await,
        _ if is_gateway => {
            session.deny(
                Attempt::at(NetworkProtocol::Tcp, to),
                "the gateway does not serve this port",
            );
            refuse_silently(client);
        }
        _ => {
            let rules = session.rules();
            Transparent {
                session,
                client,
                to,
                rules,
                received: Vec::new(),
            }
            .serve()
            .await;
        }
    }
}

/// A connection that the client addressed to a server, not to the proxy.
struct Transparent {
    session: Arc<SessionEgress>,
    client: TcpStream,
    to: SocketAddr,
    /// Rules at the time the connection was accepted.
    rules: Arc<Rules>,
    /// Bytes that were read from the client and not yet forwarded.
    received: Vec<u8>,
}

impl Transparent {
    async fn serve(self) {
        let own = self.session.own_addresses();
        let by_address = self
            .rules
            .address(Transport::Tcp, self.to.ip(), self.to.port(), &own);
        if by_address.is_allowed() && !self.rules.depends_on_names() {
            return self
                .relay_to_address(NetworkProtocol::Tcp, None, &by_address)
                .await;
        }
        self.judge(by_address).await;
    }

    /// Judges the connection by the first bytes of the client, or by their absence.
    async fn judge(mut self, by_address: Verdict) {
        let unnamed = self.session.unnamed(&self.rules, Transport::Tcp, self.to);
        // Clients of HTTP and HTTPS always speak first.
        let may_wait_for_server =
            unnamed.verdict.is_allowed() && !matches!(self.to.port(), 80 | 443);
        loop {
            let is_waiting = may_wait_for_server && may_be_complete(&self.received);
            let limit = if is_waiting {
                SILENCE_TIMEOUT
            } else {
                FIRST_BYTES_TIMEOUT
            };
            match timeout(limit, read_opening(&self.client, &mut self.received)).await {
                Ok(Ok(Some(Opening::Tls(hello)))) => {
                    return self.serve_tls(hello, &by_address).await;
                }
                Ok(Ok(Some(Opening::Http))) => return self.serve_http().await,
                Ok(Ok(None)) if may_carry_name(&self.received) => {
                    return self.deny(NetworkProtocol::Tcp, unnamed.host, CUT_SHORT);
                }
                Ok(Ok(Some(_) | None)) if unnamed.verdict.is_allowed() => {
                    return self
                        .relay_to_address(NetworkProtocol::Tcp, unnamed.host, &unnamed.verdict)
                        .await;
                }
                Ok(Ok(Some(_) | None)) => {
                    return self.deny(NetworkProtocol::Tcp, unnamed.host, unnamed.verdict.reason());
                }
                // The client closed before it sent anything.
                Ok(Err(_)) => return,
                Err(_) if is_waiting => {
                    let again = self
                        .wait_for_server(unnamed.host.clone(), &unnamed.verdict)
                        .await;
                    let Some(flow) = again else { return };
                    self = flow;
                }
                Err(_) => {
                    return self.deny(
                        NetworkProtocol::Tcp,
                        None,
                        "the client sent no recognisable request in time",
                    );
                }
            }
        }
    }

    /// Connects upstream for a client that waits for the server. If the client speaks first after
    /// all, returns the connection to be judged by that.
    async fn wait_for_server(
        mut self,
        host: Option<DomainName>,
        verdict: &Verdict,
    ) -> Option<Self> {
        let upstream = self
            .connect_to_address(NetworkProtocol::Tcp, host.clone(), verdict)
            .await;
        let Some(upstream) = upstream else {
            refuse_silently(self.client);
            return None;
        };
        if self.received.is_empty() {
            match first_speaker(&self.client, &mut self.received, &upstream).await {
                Ok(FirstSpeaker::Client(_)) => return Some(self),
                Ok(FirstSpeaker::Unclear) => {}
                Err(_) => return None,
            }
        }
        let meter = self.session.meter();
        if relay_watching(&self.client, &upstream, self.received, meter)
            .await
            .is_err()
        {
            let attempt = Attempt {
                host: host.map(Into::into),
                ..Attempt::at(NetworkProtocol::Tcp, self.to)
            };
            self.session
                .deny(attempt, "TLS or HTTP started too late to be judged");
        }
        None
    }

    async fn serve_tls(self, hello: ClientHello, by_address: &Verdict) {
        let port = self.to.port();
        let name = match hello.name {
            Sni::Named(name) => name,
            Sni::Absent if by_address.is_allowed() && !hello.has_ech => {
                return self
                    .relay_to_address(NetworkProtocol::Tls, None, by_address)
                    .await;
            }
            Sni::Absent => return self.deny_tls(None, "TLS without a server name").await,
            Sni::Unusable => {
                return self
                    .deny_tls(None, "TLS with an unreadable server name")
                    .await;
            }
        };
        let by_name = self.rules.name(Transport::Tcp, &name, port);
        if !by_name.is_allowed() {
            let is_open = by_address.is_allowed()
                && !hello.has_ech
                && !self.rules.denies_name(&name, port)
                && !self.rules.intercepts(&name, port);
            return if is_open {
                self.relay_to_address(NetworkProtocol::Tls, Some(name), by_address)
                    .await;
            } else {
                self.deny_tls(Some(name), by_name.reason()).await;
            };
        }
        if self.rules.intercepts(&name, port) {
            if self.session.authority().is_none() {
                return self.deny_tls(Some(name), NO_SESSION_CA).await;
            }
            let io = Metered::new(self.client, self.received, Arc::clone(self.session.meter()));
            return intercept(io, name, port, self.session).await;
        }
        if hello.has_ech {
            return self
                .deny_tls(Some(name), "TLS with an encrypted server name")
                .await;
        }
        self.relay_to_name(name, &by_name).await;
    }

    async fn serve_http(self) {
        let io = Metered::new(self.client, self.received, Arc::clone(self.session.meter()));
        serve_http(io, Origin::Transparent { to: self.to }, self.session).await;
    }

    /// Connects to an address that the gateway has resolved for the name. The address that the
    /// session connected to is only preferred, so that a forged SNI cannot reach another server.
    async fn relay_to_name(self, name: DomainName, verdict: &Verdict) {
        let (port, chosen) = (self.to.port(), Some(self.to.ip()));
        let attempt = Attempt {
            host: Some(name.to_string()),
            ..Attempt::at(NetworkProtocol::Tls, self.to)
        };
        match self
            .session
            .dial_name(&self.rules, &name, port, chosen)
            .await
        {
            Ok((upstream, address)) => {
                self.session.allow(
                    Attempt {
                        address: Some(address),
                        ..attempt
                    },
                    verdict.reason(),
                );
                relay(
                    &self.client,
                    &upstream,
                    &self.received,
                    self.session.meter(),
                )
                .await;
            }
            Err(Refusal {
                reason,
                denied: true,
            }) => {
                self.session.deny(attempt, &reason);
                refuse_tls(self.client).await;
            }
            Err(Refusal {
                reason,
                denied: false,
            }) => {
                self.session
                    .allow_unreached(attempt, verdict.reason(), &reason);
                refuse_silently(self.client);
            }
        }
    }

    async fn relay_to_address(
        self,
        protocol: NetworkProtocol,
        host: Option<DomainName>,
        verdict: &Verdict,
    ) {
        match self.connect_to_address(protocol, host, verdict).await {
            Some(upstream) => {
                relay(
                    &self.client,
                    &upstream,
                    &self.received,
                    self.session.meter(),
                )
                .await;
            }
            None => refuse_silently(self.client),
        }
    }

    async fn connect_to_address(
        &self,
        protocol: NetworkProtocol,
        host: Option<DomainName>,
        verdict: &Verdict,
    ) -> Option<TcpStream> {
        let attempt = Attempt {
            host: host.map(Into::into),
            ..Attempt::at(protocol, self.to)
        };
        match self.session.dial_address(&self.rules, self.to).await {
            Ok((upstream, _)) => {
                self.session.allow(attempt, verdict.reason());
                Some(upstream)
            }
            Err(refusal) if refusal.denied => {
                self.session.deny(attempt, &refusal.reason);
                None
            }
            Err(refusal) => {
                self.session
                    .allow_unreached(attempt, verdict.reason(), &refusal.reason);
                None
            }
        }
    }

    async fn deny_tls(self, host: Option<DomainName>, reason: &str) {
        let attempt = Attempt {
            host: host.map(Into::into),
            ..Attempt::at(NetworkProtocol::Tls, self.to)
        };
        self.session.deny(attempt, reason);
        refuse_tls(self.client).await;
    }

    fn deny(self, protocol: NetworkProtocol, host: Option<DomainName>, reason: &str) {
        let attempt = Attempt {
            host: host.map(Into::into),
            ..Attempt::at(protocol, self.to)
        };
        self.session.deny(attempt, reason);
        refuse_silently(self.client);
    }
}
