//! Where names lead.

use std::{net::IpAddr, sync::Arc};

use sandbar_core::{DomainName, Result};

use crate::GatewaySettings;

/// Looks names up for the gateway and all its sessions.
#[derive(Debug)]
pub(crate) struct Resolver {}

/// Why a name leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LookupError {
    NotFound,
    Failed(String),
}

impl Resolver {
    pub(crate) fn new(_settings: &GatewaySettings) -> Result<Self> {
        Ok(Self {})
    }

    /// The addresses of a name, IPv4 and IPv6. Never none.
    pub(crate) async fn lookup(&self, name: &DomainName) -> Result<Arc<[IpAddr]>, LookupError> {
        match tokio::net::lookup_host((name.as_str(), 0)).await {
            Ok(found) => Ok(found.map(|address| address.ip()).collect()),
            Err(error) => Err(LookupError::Failed(error.to_string())),
        }
    }
}
