//! Serves connections to the explicit HTTP proxy.

use std::{net::SocketAddr, sync::Arc};

use sandbar_core::{DomainName, NetworkProtocol, Transport};
use sandbar_netns::PROXY_PORT;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use super::{
    first_bytes::{
        CUT_SHORT, FIRST_BYTES_TIMEOUT, FirstSpeaker, first_speaker, read_opening, read_until,
        relay_watching,
    },
    metered::Metered,
    refuse::{NO_SESSION_CA, refuse_bad_request, refuse_proxy, refuse_silently, refuse_tls},
    relay::relay,
};
use crate::{
    egress_context::EgressContext,
    http::{Origin, intercept, serve_http},
    refusal::Refusal,
    rules::Verdict,
    session_egress::{Attempt, SessionEgress},
    sniff::{ClientHello, HostPort, Opening, ProxyOpening, Sni, may_carry_name, proxy_request},
};

/// Serves a connection to the proxy: a `CONNECT` tunnel, or requests to forward.
pub(super) async fn serve(session: Arc<SessionEgress>, client: TcpStream) {
    let mut received = Vec::new();
    let opening = timeout(
        FIRST_BYTES_TIMEOUT,
        read_until(&client, &mut received, known_request),
    )
    .await;
    let deny = |reason| session.deny(Attempt::of(NetworkProtocol::Proxy, PROXY_PORT), reason);
    match opening {
        Ok(Ok(Some(ProxyOpening::Connect { target, head }))) => {
            let received = received.split_off(head);
            Tunnel {
                session,
                client,
                target,
                received,
            }
            .serve()
            .await;
        }
        Ok(Ok(Some(ProxyOpening::Bad(why)))) => {
            deny(why);
            refuse_bad_request(client, why).await;
        }
        Ok(Ok(Some(ProxyOpening::Other | ProxyOpening::Unfinished))) => {
            let io = Metered::new(client, received, Arc::clone(session.meter()));
            serve_http(io, Origin::Explicit, session).await;
        }
        // The client closed before it sent anything.
        Ok(Ok(None) | Err(_)) => {}
        Err(_) => {
            deny("the client sent no recognisable request in time");
            refuse_silently(client);
        }
    }
}

fn known_request(received: &[u8]) -> Option<ProxyOpening> {
    match proxy_request(received) {
        _ if received.is_empty() => None,
        ProxyOpening::Unfinished => None,
        known => Some(known),
    }
}

/// A `CONNECT` tunnel.
struct Tunnel {
    session: Arc<SessionEgress>,
    client: TcpStream,
    target: HostPort,
    /// Bytes of the tunnel that were read and not yet forwarded.
    received: Vec<u8>,
}

impl Tunnel {
    async fn serve(mut self) {
        let verdict = self.judge_target();
        if !verdict.is_allowed() {
            return self
                .refuse(&Refusal::denied(verdict.reason().to_owned()), &verdict)
                .await;
        }
        if let HostPort::Name(name, port) = &self.target
            && self.session.rules().intercepts(name, *port)
        {
            let (name, port) = (name.clone(), *port);
            return self.serve_intercepted(name, port, &verdict).await;
        }
        match self.session.dial(&self.target).await {
            Ok((upstream, address)) => {
                self.session
                    .allow(self.attempt(Some(address)), verdict.reason());
                if self.accept().await {
                    self.carry(upstream, address).await;
                }
            }
            Err(refusal) => self.refuse(&refusal, &verdict).await,
        }
    }

    fn judge_target(&self) -> Verdict {
        let rules = self.session.rules();
        match &self.target {
            HostPort::Name(name, port) => rules.name(Transport::Tcp, name, *port),
            HostPort::Address(address) => rules.address(
                Transport::Tcp,
                address.ip(),
                address.port(),
                &self.session.own_addresses(),
            ),
        }
    }

    /// Serves a tunnel whose TLS is terminated here. Other protocols are relayed.
    async fn serve_intercepted(mut self, name: DomainName, port: u16, verdict: &Verdict) {
        if self.session.authority().is_none() {
            let reason = NO_SESSION_CA.to_owned();
            return self.refuse(&Refusal::denied(reason), verdict).await;
        }
        if !self.accept().await {
            return;
        }
        match timeout(
            FIRST_BYTES_TIMEOUT,
            read_opening(&self.client, &mut self.received),
        )
        .await
        {
            Ok(Ok(Some(Opening::Tls(hello)))) if hello.name == Sni::Named(name.clone()) => {
                let io = Metered::new(self.client, self.received, Arc::clone(self.session.meter()));
                return intercept(io, name, port, self.session).await;
            }
            Ok(Ok(Some(Opening::Tls(_)))) => return self.deny_tls(None).await,
            Ok(Err(_)) => return,
            Ok(Ok(None)) | Err(_) if may_carry_name(&self.received) => {
                self.session.deny(self.attempt(None), CUT_SHORT);
                return refuse_silently(self.client);
            }
            Ok(Ok(_)) | Err(_) => {}
        }
        match self.session.dial(&self.target).await {
            Ok((upstream, address)) => {
                self.session
                    .allow(self.attempt(Some(address)), verdict.reason());
                self.carry(upstream, address).await;
            }
            Err(refusal) => {
                self.record_refusal(&refusal, verdict);
                refuse_silently(self.client);
            }
        }
    }

    /// Answers `200`; `false` if the client has closed.
    async fn accept(&mut self) -> bool {
        const OPEN: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
        matches!(
            timeout(FIRST_BYTES_TIMEOUT, self.client.write_all(OPEN)).await,
            Ok(Ok(()))
        )
    }

    /// Relays the tunnel if its content is for the host that the tunnel was requested for.
    async fn carry(mut self, upstream: TcpStream, address: SocketAddr) {
        let Ok(beginning) = first_speaker(&self.client, &mut self.received, &upstream).await else {
            return;
        };
        match beginning {
            FirstSpeaker::Client(Opening::Tls(hello)) => {
                if self.is_for_target(&hello) {
                    relay(
                        &self.client,
                        &upstream,
                        &self.received,
                        self.session.meter(),
                    )
                    .await;
                } else {
                    self.deny_tls(Some(address)).await;
                }
            }
            FirstSpeaker::Client(Opening::Http) => {
                // Every request is judged by its own `Host` and gets its own connection.
                drop(upstream);
                let io = Metered::new(self.client, self.received, Arc::clone(self.session.meter()));
                serve_http(io, Origin::Transparent { to: address }, self.session).await;
            }
            FirstSpeaker::Client(Opening::Other | Opening::Unfinished) => {
                relay(
                    &self.client,
                    &upstream,
                    &self.received,
                    self.session.meter(),
                )
                .await;
            }
            FirstSpeaker::Unclear => {
                let attempt = self.attempt(Some(address));
                if relay_watching(&self.client, &upstream, self.received, self.session.meter())
                    .await
                    .is_err()
                {
                    self.session
                        .deny(attempt, "TLS or HTTP started too late to be judged");
                }
            }
        }
    }

    /// Whether the SNI fits the target of the tunnel: equal to a target name; for a target address,
    /// any name that is neither denied nor intercepted.
    fn is_for_target(&self, hello: &ClientHello) -> bool {
        let rules = self.session.rules();
        if matches!(self.target, HostPort::Address(_)) && !rules.depends_on_names() {
            return true;
        }
        if hello.has_ech {
            return false;
        }
        match (&self.target, &hello.name) {
            (HostPort::Name(name, _), Sni::Named(other)) => name == other,
            (HostPort::Address(address), Sni::Named(name)) => {
                !rules.denies_name(name, address.port()) && !rules.intercepts(name, address.port())
            }
            (HostPort::Address(_), Sni::Absent) => true,
            (HostPort::Name(..), Sni::Absent) | (_, Sni::Unusable) => false,
        }
    }

    async fn deny_tls(self, address: Option<SocketAddr>) {
        let reason = "the TLS server name differs from the target of the tunnel";
        self.session.deny(
            Attempt {
                protocol: NetworkProtocol::Tls,
                ..self.attempt(address)
            },
            reason,
        );
        refuse_tls(self.client).await;
    }

    async fn refuse(self, refusal: &Refusal, verdict: &Verdict) {
        self.record_refusal(refusal, verdict);
        let host = match &self.target {
            HostPort::Name(name, _) => name.to_string(),
            HostPort::Address(address) => address.ip().to_string(),
        };
        refuse_proxy(self.client, &host, refusal).await;
    }

    fn record_refusal(&self, refusal: &Refusal, verdict: &Verdict) {
        if refusal.denied {
            self.session.deny(self.attempt(None), &refusal.reason);
        } else {
            self.session
                .allow_unreached(self.attempt(None), verdict.reason(), &refusal.reason);
        }
    }

    fn attempt(&self, address: Option<SocketAddr>) -> Attempt {
        let (host, target_address) = match &self.target {
            HostPort::Name(name, _) => (Some(name.to_string()), None),
            HostPort::Address(address) => (None, Some(*address)),
        };
        Attempt {
            host,
            address: address.or(target_address),
            ..Attempt::of(NetworkProtocol::Proxy, self.target.port())
        }
    }
}
