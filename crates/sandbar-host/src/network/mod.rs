//! What the network of sessions needs of the host: the gateway they share, what their boxes are told, and the log of what
//! was decided.

mod decisions;
mod environment;
mod outlet;
mod trust;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use sandbar_core::Result;
use sandbar_net::{Gateway, GatewaySettings};

pub(crate) use self::{
    decisions::DecisionLog,
    environment::variables,
    outlet::{NetworkPlan, Outlet, Site},
};
use crate::HostConfig;

/// The gateway of a host, opened when the first session needs it.
#[derive(Debug)]
pub(crate) struct SharedGateway {
    settings: GatewaySettings,
    opened: Mutex<Option<Arc<Gateway>>>,
}

impl SharedGateway {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let settings = GatewaySettings {
            dns_servers: config.dns_servers.iter().copied().map(SocketAddr::from).collect(),
            trusted_certificates: config.egress_ca_file.clone(),
        };
        Self { settings, opened: Mutex::default() }
    }

    fn get(&self) -> Result<Arc<Gateway>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gateway) = &*opened {
            return Ok(Arc::clone(gateway));
        }
        let gateway = Gateway::open(&self.settings)?;
        *opened = Some(Arc::clone(&gateway));
        Ok(gateway)
    }
}
