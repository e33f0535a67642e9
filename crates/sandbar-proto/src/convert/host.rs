//! Health and capability messages.

use sandbar_core::{ByteCount, Capabilities, Capability, Error, Health, HealthStatus, Result};

use super::scalar::{known, missing, pack_duration, unpack_duration};
use crate::v1;

impl From<Health> for v1::HealthCheckResponse {
    fn from(health: Health) -> Self {
        Self {
            status: match health.status {
                HealthStatus::Healthy => v1::HealthStatus::Healthy,
                HealthStatus::Degraded => v1::HealthStatus::Degraded,
                HealthStatus::Unhealthy => v1::HealthStatus::Unhealthy,
            }
            .into(),
            reasons: health.reasons,
            pool_state: health.pool_state,
            space_total: health.space_total.get(),
            space_available: health.space_available.get(),
            sessions: health.sessions,
            active_commands: health.active_commands,
            active_tools: health.active_tools,
            recent_errors: health.recent_errors,
            uptime: pack_duration(health.uptime),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::HealthCheckResponse> for Health {
    type Error = Error;

    fn try_from(wire: v1::HealthCheckResponse) -> Result<Self> {
        Ok(Self {
            status: match known("status", wire.status)? {
                v1::HealthStatus::HEALTH_STATUS_UNSPECIFIED => return Err(missing("status")),
                v1::HealthStatus::HEALTH_STATUS_HEALTHY => HealthStatus::Healthy,
                v1::HealthStatus::HEALTH_STATUS_DEGRADED => HealthStatus::Degraded,
                v1::HealthStatus::HEALTH_STATUS_UNHEALTHY => HealthStatus::Unhealthy,
            },
            reasons: wire.reasons,
            pool_state: wire.pool_state,
            space_total: ByteCount(wire.space_total),
            space_available: ByteCount(wire.space_available),
            sessions: wire.sessions,
            active_commands: wire.active_commands,
            active_tools: wire.active_tools,
            recent_errors: wire.recent_errors,
            uptime: unpack_duration("uptime", wire.uptime)?.unwrap_or_default(),
        })
    }
}

impl From<Capabilities> for v1::CapabilitiesResponse {
    fn from(capabilities: Capabilities) -> Self {
        let entries = capabilities
            .entries()
            .map(|(name, capability)| v1::Capability {
                name: name.to_owned(),
                available: capability.is_yes(),
                reason: capability.reason().unwrap_or_default().to_owned(),
                ..Default::default()
            });
        Self {
            storage_backend: capabilities.storage.as_str().to_owned(),
            container_runtime: capabilities.runtime.as_str().to_owned(),
            capabilities: entries.into(),
            isolation: capabilities.isolation,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::CapabilitiesResponse> for Capabilities {
    type Error = Error;

    fn try_from(wire: v1::CapabilitiesResponse) -> Result<Self> {
        // An older server does not have a capability that it does not list.
        let take = |name: &str| match wire.capabilities.iter().find(|entry| entry.name == name) {
            Some(entry) if entry.available => Capability::Yes,
            Some(entry) => Capability::no(entry.reason.clone()),
            None => Capability::no("the server does not know it"),
        };
        Ok(Self {
            storage: wire.storage_backend.parse()?,
            runtime: wire.container_runtime.parse()?,
            snapshots: take("snapshots"),
            rollback: take("rollback"),
            keep_later: take("keep_later"),
            fork: take("fork"),
            quota: take("quota"),
            constant_time_snapshots: take("constant_time_snapshots"),
            layered: take("layered"),
            pause: take("pause"),
            checkpoint: take("checkpoint"),
            limits: take("limits"),
            network: take("network"),
            users: take("users"),
            root_rights: take("root_rights"),
            isolation: wire.isolation,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbar_core::{RuntimeKind, StorageKind};

    use super::*;

    #[test]
    fn health_survives_the_wire() {
        for status in [
            HealthStatus::Healthy,
            HealthStatus::Degraded,
            HealthStatus::Unhealthy,
        ] {
            let sent = Health {
                status,
                reasons: vec!["full".into()],
                pool_state: "ONLINE".into(),
                space_total: ByteCount(10),
                space_available: ByteCount(3),
                sessions: 2,
                active_commands: 1,
                active_tools: 4,
                recent_errors: vec!["an hour ago".into()],
                uptime: Duration::from_secs(9),
            };
            assert_eq!(
                Health::try_from(v1::HealthCheckResponse::from(sent.clone())).unwrap(),
                sent
            );
        }
    }

    #[test]
    fn every_capability_survives_the_wire() {
        let no = Capability::no("not here");
        let sent = Capabilities {
            storage: StorageKind::Btrfs,
            runtime: RuntimeKind::None,
            isolation: "none".into(),
            snapshots: Capability::Yes,
            rollback: no.clone(),
            keep_later: Capability::Yes,
            fork: no.clone(),
            quota: Capability::Yes,
            constant_time_snapshots: no,
            layered: Capability::Yes,
            pause: Capability::Yes,
            checkpoint: Capability::no("not here"),
            limits: Capability::Yes,
            network: Capability::no("no gate here"),
            users: Capability::Yes,
            root_rights: Capability::no("not here"),
        };
        assert_eq!(
            Capabilities::try_from(v1::CapabilitiesResponse::from(sent.clone())).unwrap(),
            sent
        );
    }
}
