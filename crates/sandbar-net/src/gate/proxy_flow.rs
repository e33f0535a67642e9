//! Connections to the explicit proxy.

use std::{net::SocketAddr, sync::Arc};

use sandbar_core::{DomainName, NetworkProtocol, Transport};
use sandbar_netns::PROXY_PORT;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use super::{
    first_words::{Beginning, PATIENCE, hear_opening, hear_until, relay_watching, who_begins},
    metered::Metered,
    refusal::{refuse_bad_request, refuse_proxy, refuse_silently, refuse_tls},
    relay::relay,
};
use crate::{
    http::{Origin, Outside, Refusal, serve_http},
    rules::Verdict,
    session_gate::{Attempt, SessionGate},
    sniff::{ClientHello, HostPort, Opening, ProxyOpening, Sni, proxy_request},
    tls::intercept,
};

/// Serves a connection to the proxy: a tunnel, or requests to pass on.
pub(super) async fn serve(gate: Arc<SessionGate>, client: TcpStream) {
    let mut said = Vec::new();
    let heard = timeout(PATIENCE, hear_until(&client, &mut said, known_request)).await;
    let nothing = |reason| gate.deny(Attempt::of(NetworkProtocol::Proxy, PROXY_PORT), reason);
    match heard {
        Ok(Ok(Some(ProxyOpening::Connect { target, head }))) => {
            let said = said.split_off(head);
            Tunnel { gate, client, target, said }.serve().await;
        }
        Ok(Ok(Some(ProxyOpening::Bad(why)))) => {
            nothing(why);
            refuse_bad_request(client, why).await;
        }
        Ok(Ok(Some(ProxyOpening::Other | ProxyOpening::Unfinished))) => {
            let io = Metered::new(client, said, Arc::clone(gate.meter()));
            serve_http(io, Origin::Explicit, gate).await;
        }
        // The client has ended before it wanted anything.
        Ok(Ok(None) | Err(_)) => {}
        Err(_) => {
            nothing("the client has not said what it wants");
            refuse_silently(client);
        }
    }
}

fn known_request(said: &[u8]) -> Option<ProxyOpening> {
    match proxy_request(said) {
        _ if said.is_empty() => None,
        ProxyOpening::Unfinished => None,
        known => Some(known),
    }
}

/// A `CONNECT`.
struct Tunnel {
    gate: Arc<SessionGate>,
    client: TcpStream,
    target: HostPort,
    /// What the client has said inside the tunnel.
    said: Vec<u8>,
}

impl Tunnel {
    async fn serve(mut self) {
        let verdict = self.judge_target();
        if !verdict.is_allowed() {
            return self.refuse(&Refusal::denied(verdict.reason().to_owned()), &verdict).await;
        }
        if let HostPort::Name(name, port) = &self.target
            && self.gate.rules().intercepts(name, *port)
        {
            let (name, port) = (name.clone(), *port);
            return self.serve_intercepted(name, port, &verdict).await;
        }
        match self.gate.dial(&self.target).await {
            Ok((upstream, address)) => {
                self.gate.allow(self.attempt(Some(address)), verdict.reason());
                if self.accept().await {
                    self.carry(upstream, address).await;
                }
            }
            Err(refusal) => self.refuse(&refusal, &verdict).await,
        }
    }

    fn judge_target(&self) -> Verdict {
        let rules = self.gate.rules();
        match &self.target {
            HostPort::Name(name, port) => rules.name(Transport::Tcp, name, *port),
            HostPort::Address(address) => {
                rules.address(Transport::Tcp, address.ip(), address.port(), &self.gate.own_addresses())
            }
        }
    }

    /// A tunnel whose TLS is opened here. What is no TLS goes on as in any other.
    async fn serve_intercepted(mut self, name: DomainName, port: u16, verdict: &Verdict) {
        if self.gate.authority().is_none() {
            let reason = "TLS cannot be looked into: the box was made without".to_owned();
            return self.refuse(&Refusal::denied(reason), verdict).await;
        }
        if !self.accept().await {
            return;
        }
        match timeout(PATIENCE, hear_opening(&self.client, &mut self.said)).await {
            Ok(Ok(Some(Opening::Tls(hello)))) if hello.name == Sni::Named(name.clone()) => {
                let io = Metered::new(self.client, self.said, Arc::clone(self.gate.meter()));
                return intercept(io, name, port, self.gate).await;
            }
            Ok(Ok(Some(Opening::Tls(_)))) => return self.deny_tls(None).await,
            Ok(Err(_)) => return,
            Ok(Ok(_)) | Err(_) => {}
        }
        match self.gate.dial(&self.target).await {
            Ok((upstream, address)) => {
                self.gate.allow(self.attempt(Some(address)), verdict.reason());
                self.carry(upstream, address).await;
            }
            Err(refusal) => {
                self.record_refusal(&refusal, verdict);
                refuse_silently(self.client);
            }
        }
    }

    /// Tells the client that the tunnel is open.
    async fn accept(&mut self) -> bool {
        const OPEN: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
        matches!(timeout(PATIENCE, self.client.write_all(OPEN)).await, Ok(Ok(())))
    }

    /// Moves what the tunnel carries, if it is for the host the tunnel was asked for.
    async fn carry(mut self, upstream: TcpStream, address: SocketAddr) {
        let Ok(beginning) = who_begins(&self.client, &mut self.said, &upstream).await else { return };
        match beginning {
            Beginning::Client(Opening::Tls(hello)) => {
                if self.is_for_target(&hello) {
                    relay(&self.client, &upstream, &self.said, self.gate.meter()).await;
                } else {
                    self.deny_tls(Some(address)).await;
                }
            }
            Beginning::Client(Opening::Http) => {
                // Every request is judged by its own host, and connected for anew.
                drop(upstream);
                let io = Metered::new(self.client, self.said, Arc::clone(self.gate.meter()));
                serve_http(io, Origin::Transparent { to: address }, self.gate).await;
            }
            Beginning::Client(Opening::Other | Opening::Unfinished) => {
                relay(&self.client, &upstream, &self.said, self.gate.meter()).await;
            }
            Beginning::Unclear => {
                let attempt = self.attempt(Some(address));
                if relay_watching(&self.client, &upstream, self.said, self.gate.meter()).await.is_err() {
                    self.gate.deny(attempt, "TLS or HTTP began too late to be judged");
                }
            }
        }
    }

    /// A tunnel to a name carries TLS for that name. One to an address carries what its address is open for, and names that
    /// are not denied.
    fn is_for_target(&self, hello: &ClientHello) -> bool {
        let rules = self.gate.rules();
        if matches!(self.target, HostPort::Address(_)) && !rules.looks_at_names() {
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
        let reason = "TLS in a tunnel is for another host than the tunnel";
        self.gate.deny(Attempt { protocol: NetworkProtocol::Tls, ..self.attempt(address) }, reason);
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
            self.gate.deny(self.attempt(None), &refusal.reason);
        } else {
            self.gate.allow_in_vain(self.attempt(None), verdict.reason(), &refusal.reason);
        }
    }

    fn attempt(&self, address: Option<SocketAddr>) -> Attempt {
        let (host, asked) = match &self.target {
            HostPort::Name(name, _) => (Some(name.to_string()), None),
            HostPort::Address(address) => (None, Some(*address)),
        };
        Attempt { host, address: address.or(asked), ..Attempt::of(NetworkProtocol::Proxy, self.target.port()) }
    }
}
