//! One connection of a session, from its first byte to its last.

use std::{net::SocketAddr, sync::Arc};

use sandbar_core::{DomainName, NetworkProtocol, Transport};
use sandbar_netns::{GATEWAY_V4, GATEWAY_V6, PROXY_PORT};
use tokio::{net::TcpStream, time::timeout};

use super::{
    dial::connect,
    dns_flow,
    first_words::{Beginning, PATIENCE, SILENCE, hear_opening, may_be_all, relay_watching, who_begins},
    metered::Metered,
    proxy_flow,
    refusal::{refuse_silently, refuse_tls},
    relay::relay,
};
use crate::{
    http::{Origin, Outside, Refusal, serve_http},
    rules::{Rules, Verdict},
    session_gate::{Attempt, SessionGate},
    sniff::{ClientHello, Opening, Sni},
    tls::intercept,
};

/// Serves a connection that was meant to go to an address.
pub(super) async fn serve(gate: Arc<SessionGate>, client: TcpStream, to: SocketAddr) {
    // What a program writes is on its way at once.
    let _ = client.set_nodelay(true);
    let is_gateway = to.ip() == GATEWAY_V4 || to.ip() == GATEWAY_V6;
    match to.port() {
        dns_flow::PORT => dns_flow::answer_connection(&gate, client).await,
        PROXY_PORT if is_gateway => proxy_flow::serve(gate, client).await,
        _ if is_gateway => {
            gate.deny(Attempt::at(NetworkProtocol::Tcp, to), "the gateway has nothing at this port");
            refuse_silently(client);
        }
        _ => {
            let rules = gate.rules();
            Transparent { gate, client, to, rules, said: Vec::new() }.serve().await;
        }
    }
}

/// A connection whose program thinks it talks to the other side.
struct Transparent {
    gate: Arc<SessionGate>,
    client: TcpStream,
    to: SocketAddr,
    /// What held when the connection was made.
    rules: Arc<Rules>,
    /// What the client has said so far, and nobody has heard.
    said: Vec<u8>,
}

impl Transparent {
    async fn serve(self) {
        let own = self.gate.own_addresses();
        let by_address = self.rules.address(Transport::Tcp, self.to.ip(), self.to.port(), &own);
        if by_address.is_allowed() && !self.rules.looks_at_names() {
            return self.relay_to_address(NetworkProtocol::Tcp, None, &by_address).await;
        }
        self.judge(by_address).await;
    }

    /// Decides by what the client says, or by its silence.
    async fn judge(mut self, by_address: Verdict) {
        let unnamed = self.gate.unnamed(&self.rules, Transport::Tcp, self.to);
        // Programs that go to these ports speak first.
        let may_wait_for_server = unnamed.verdict.is_allowed() && !matches!(self.to.port(), 80 | 443);
        loop {
            let is_waiting = may_wait_for_server && may_be_all(&self.said);
            let patience = if is_waiting { SILENCE } else { PATIENCE };
            match timeout(patience, hear_opening(&self.client, &mut self.said)).await {
                Ok(Ok(Some(Opening::Tls(hello)))) => return self.serve_tls(hello, &by_address).await,
                Ok(Ok(Some(Opening::Http))) => return self.serve_http().await,
                Ok(Ok(Some(_) | None)) if unnamed.verdict.is_allowed() => {
                    return self.relay_to_address(NetworkProtocol::Tcp, unnamed.host, &unnamed.verdict).await;
                }
                Ok(Ok(Some(_) | None)) => {
                    return self.deny(NetworkProtocol::Tcp, unnamed.host, unnamed.verdict.reason());
                }
                // The client is gone before it wanted anything.
                Ok(Err(_)) => return,
                Err(_) if is_waiting => {
                    let again = self.let_server_begin(unnamed.host.clone(), &unnamed.verdict).await;
                    let Some(flow) = again else { return };
                    self = flow;
                }
                Err(_) => return self.deny(NetworkProtocol::Tcp, None, "the client has not said what it wants"),
            }
        }
    }

    /// Connects for a client that waits. When it speaks first after all, that is judged as if nothing had been.
    async fn let_server_begin(mut self, host: Option<DomainName>, verdict: &Verdict) -> Option<Self> {
        let upstream = self.connect_to_address(NetworkProtocol::Tcp, host.clone(), verdict).await;
        let Some(upstream) = upstream else {
            refuse_silently(self.client);
            return None;
        };
        if self.said.is_empty() {
            match who_begins(&self.client, &mut self.said, &upstream).await {
                Ok(Beginning::Client(_)) => return Some(self),
                Ok(Beginning::Unclear) => {}
                Err(_) => return None,
            }
        }
        let meter = self.gate.meter();
        if relay_watching(&self.client, &upstream, self.said, meter).await.is_err() {
            let attempt = Attempt { host: host.map(Into::into), ..Attempt::at(NetworkProtocol::Tcp, self.to) };
            self.gate.deny(attempt, "TLS or HTTP began too late to be judged");
        }
        None
    }

    async fn serve_tls(self, hello: ClientHello, by_address: &Verdict) {
        let port = self.to.port();
        let name = match hello.name {
            Sni::Named(name) => name,
            Sni::Absent if by_address.is_allowed() && !hello.has_ech => {
                return self.relay_to_address(NetworkProtocol::Tls, None, by_address).await;
            }
            Sni::Absent => return self.deny_tls(None, "TLS without a server name").await,
            Sni::Unusable => return self.deny_tls(None, "TLS with a server name that cannot be read").await,
        };
        let by_name = self.rules.name(Transport::Tcp, &name, port);
        if !by_name.is_allowed() {
            let is_open = by_address.is_allowed()
                && !hello.has_ech
                && !self.rules.denies_name(&name, port)
                && !self.rules.intercepts(&name, port);
            return if is_open {
                self.relay_to_address(NetworkProtocol::Tls, Some(name), by_address).await;
            } else {
                self.deny_tls(Some(name), by_name.reason()).await;
            };
        }
        if self.rules.intercepts(&name, port) {
            if self.gate.authority().is_none() {
                return self.deny_tls(Some(name), "TLS cannot be looked into: the box was made without").await;
            }
            let io = Metered::new(self.client, self.said, Arc::clone(self.gate.meter()));
            return intercept(io, name, port, self.gate).await;
        }
        if hello.has_ech {
            return self.deny_tls(Some(name), "TLS with an encrypted server name").await;
        }
        self.relay_to_name(name, &by_name).await;
    }

    async fn serve_http(self) {
        let io = Metered::new(self.client, self.said, Arc::clone(self.gate.meter()));
        serve_http(io, Origin::Transparent { to: self.to }, self.gate).await;
    }

    /// Connects to an address the gateway has found for the name itself; what the session found is only a wish.
    async fn relay_to_name(self, name: DomainName, verdict: &Verdict) {
        let (port, chosen) = (self.to.port(), Some(self.to.ip()));
        let attempt = Attempt { host: Some(name.to_string()), ..Attempt::at(NetworkProtocol::Tls, self.to) };
        match self.gate.dial_name(&self.rules, &name, port, chosen).await {
            Ok((upstream, address)) => {
                self.gate.allow(Attempt { address: Some(address), ..attempt }, verdict.reason());
                relay(&self.client, &upstream, &self.said, self.gate.meter()).await;
            }
            Err(Refusal { reason, denied: true }) => {
                self.gate.deny(attempt, &reason);
                refuse_tls(self.client).await;
            }
            Err(Refusal { reason, denied: false }) => {
                self.gate.allow_in_vain(attempt, verdict.reason(), &reason);
                refuse_silently(self.client);
            }
        }
    }

    async fn relay_to_address(self, protocol: NetworkProtocol, host: Option<DomainName>, verdict: &Verdict) {
        match self.connect_to_address(protocol, host, verdict).await {
            Some(upstream) => relay(&self.client, &upstream, &self.said, self.gate.meter()).await,
            None => refuse_silently(self.client),
        }
    }

    async fn connect_to_address(
        &self,
        protocol: NetworkProtocol,
        host: Option<DomainName>,
        verdict: &Verdict,
    ) -> Option<TcpStream> {
        let attempt = Attempt { host: host.map(Into::into), ..Attempt::at(protocol, self.to) };
        match connect(&[self.to]).await {
            Ok((upstream, _)) => {
                self.gate.allow(attempt, verdict.reason());
                Some(upstream)
            }
            Err(refusal) => {
                self.gate.allow_in_vain(attempt, verdict.reason(), &refusal.reason);
                None
            }
        }
    }

    async fn deny_tls(self, host: Option<DomainName>, reason: &str) {
        let attempt = Attempt { host: host.map(Into::into), ..Attempt::at(NetworkProtocol::Tls, self.to) };
        self.gate.deny(attempt, reason);
        refuse_tls(self.client).await;
    }

    fn deny(self, protocol: NetworkProtocol, host: Option<DomainName>, reason: &str) {
        let attempt = Attempt { host: host.map(Into::into), ..Attempt::at(protocol, self.to) };
        self.gate.deny(attempt, reason);
        refuse_silently(self.client);
    }
}
