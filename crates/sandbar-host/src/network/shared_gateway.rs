//! The egress gateway that all sessions of a host share.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use sandbar_core::Result;
use sandbar_egress::{Gateway, GatewaySettings};

use crate::HostConfig;

/// The egress gateway of a host, opened on first use.
#[derive(Debug)]
pub(crate) struct SharedGateway {
    settings: GatewaySettings,
    opened: Mutex<Option<Arc<Gateway>>>,
}

impl SharedGateway {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let settings = GatewaySettings {
            dns_servers: config
                .dns_servers
                .iter()
                .copied()
                .map(SocketAddr::from)
                .collect(),
            trusted_certificates: config.egress_ca_file.clone(),
        };
        Self {
            settings,
            opened: Mutex::default(),
        }
    }

    pub(super) fn get(&self) -> Result<Arc<Gateway>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gateway) = &*opened {
            return Ok(Arc::clone(gateway));
        }
        let gateway = Gateway::open(&self.settings)?;
        *opened = Some(Arc::clone(&gateway));
        Ok(gateway)
    }
}
