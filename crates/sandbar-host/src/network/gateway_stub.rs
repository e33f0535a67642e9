//! Signatures of the gateway until it is merged.

use std::sync::Arc;

use sandbar_core::{NetworkPolicy, NetworkTraffic, Result};
use sandbar_net::{DecisionSink, GatewaySettings, Secrets};
use sandbar_netns::{GateSockets, UdpGate};

#[derive(Debug)]
pub(crate) struct Gateway;

impl Gateway {
    pub(crate) fn open(_: &GatewaySettings) -> Result<Arc<Self>> {
        Ok(Arc::new(Self))
    }

    pub(crate) fn attach(&self, _: GateSockets, _: SessionHooks) -> Result<Gate> {
        Ok(Gate)
    }
}

#[derive(Debug)]
pub(crate) struct SessionHooks {
    pub(crate) policy: NetworkPolicy,
    pub(crate) sink: Arc<dyn DecisionSink>,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) traffic: Arc<TrafficCounters>,
}

#[derive(Debug)]
pub(crate) struct Gate;

impl Gate {
    pub(crate) fn set_policy(&self, _: NetworkPolicy) {}
    pub(crate) fn set_udp(&self, _: Vec<UdpGate>) {}
    pub(crate) fn close(&self) {}
    pub(crate) async fn closed(&self) {}
}

#[derive(Debug, Default)]
pub(crate) struct TrafficCounters;

impl TrafficCounters {
    pub(crate) fn snapshot(&self) -> NetworkTraffic {
        NetworkTraffic::default()
    }
}

#[derive(Debug)]
pub(crate) struct Authority;

impl Authority {
    pub(crate) fn new(_: &str) -> Result<Self> {
        Ok(Self)
    }

    pub(crate) fn certificate_pem(&self) -> &str {
        ""
    }
}
