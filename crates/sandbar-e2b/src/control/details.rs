//! A sandbox as the API describes it.

use jiff::{Timestamp, ToSpan as _};
use sandbar_core::{Need, OnExpiry, Result, SessionId, SessionInfo};
use serde_json::{Value, json};

use super::{Control, machine::Machine};
use crate::{
    auth::{ApiCaller, access_token},
    ingress_domain::IngressDomain,
    protocol::ENVD_VERSION,
    sandboxes::{SandboxNote, is_asleep},
};

/// `clientID`: identifies a machine of E2B; the same for every sandbox of this host.
const CLIENT_ID: &str = "sandbar";

const MIB: u64 = 1024 * 1024;

/// Returns E2B's name for the state of a session.
pub(super) fn state_of(session: &SessionInfo) -> &'static str {
    if is_asleep(session.state) {
        "paused"
    } else {
        "running"
    }
}

/// Returns when a sandbox expires: far in the future if never, and the stored end if it is paused.
pub(super) fn end_of(session: &SessionInfo, note: &SandboxNote) -> Timestamp {
    let far = || {
        session
            .created
            .checked_add((24 * 365 * 20).hours())
            .unwrap_or(session.created)
    };
    session
        .expires
        .or(note.end_at.filter(|_| is_asleep(session.state)))
        .unwrap_or_else(far)
}

/// Resource limits in the units of E2B.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) cpus: u32,
    /// Bytes.
    pub(super) memory: u64,
    pub(super) disk: u64,
}

/// Sizes in bytes of sandboxes without limits of their own: the memory that the host allows them,
/// and the storage that they share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub(super) memory: u64,
    pub(super) disk: u64,
}

impl Size {
    pub(super) fn of(session: &SessionInfo, note: &SandboxNote, shared: Shared) -> Self {
        let machine = Machine::this();
        Self {
            cpus: note.cpu_count.unwrap_or(machine.cpus),
            memory: note
                .memory_mb
                .map_or(shared.memory, |mib| u64::from(mib) * MIB),
            disk: session
                .quota
                .map_or(shared.disk, |quota| quota.0.min(shared.disk)),
        }
    }
}

impl Control {
    /// Returns the sizes of sandboxes without limits of their own.
    pub(super) async fn shared_size(&self) -> Shared {
        let machine = Machine::this().memory;
        let limits = self.host.capabilities().limits.is_yes();
        let limit = self.host.default_limits().memory.filter(|_| limits);
        Shared {
            memory: limit.map_or(machine, |limit| limit.0.min(machine)),
            disk: self.host.health().await.space_total.0,
        }
    }

    /// Returns what an SDK needs to use a sandbox, tokens included. For callers that may use it.
    pub(super) async fn handle(
        &self,
        id: &SessionId,
        note: &SandboxNote,
        domain: &IngressDomain,
    ) -> Result<Value> {
        let access = self.host.port_access(id).await?;
        let mut handle = json!({
            "templateID": note.template,
            "sandboxID": id.as_str(),
            "clientID": CLIENT_ID,
            "envdVersion": ENVD_VERSION,
            "domain": domain.0,
            "trafficAccessToken": (!access.public).then(|| access.token.reveal()),
        });
        if let Some(alias) = &note.alias {
            handle["alias"] = alias.as_str().into();
        }
        if note.secure {
            handle["envdAccessToken"] = access_token(access.token.reveal()).into();
        }
        Ok(handle)
    }

    /// Returns the details of a sandbox, with tokens and secrets only for callers that may use it.
    pub(super) async fn detail(
        &self,
        (caller, domain): (&ApiCaller, &IngressDomain),
        session: &SessionInfo,
        note: SandboxNote,
    ) -> Result<Value> {
        let mut detail = listed(session, &note, self.shared_size().await);
        let may_use = caller.grant.may(Need::UseSession(&session.id));
        detail["lifecycle"] = json!({
            "onTimeout": if note.on_expiry() == OnExpiry::Destroy { "kill" } else { "pause" },
            "autoResume": note.auto_resume,
        });
        detail["allowInternetAccess"] = note.internet.into();
        detail["domain"] = json!(domain.0);
        if may_use
            && let Some(token) = self
                .handle(&session.id, &note, domain)
                .await?
                .get("envdAccessToken")
        {
            detail["envdAccessToken"] = token.clone();
        }
        if let Some(network) = note.network {
            let shown = if may_use {
                network
            } else {
                network.without_secrets()
            };
            detail["network"] = json!(shown);
        }
        Ok(detail)
    }
}

/// Returns a sandbox as an element of a list. `pool` is the disk size of those without a quota.
pub(super) fn listed(session: &SessionInfo, note: &SandboxNote, shared: Shared) -> Value {
    let size = Size::of(session, note, shared);
    let mut listed = json!({
        "templateID": note.template,
        "sandboxID": session.id.as_str(),
        "clientID": CLIENT_ID,
        "startedAt": session.created.to_string(),
        "endAt": end_of(session, note).to_string(),
        "cpuCount": size.cpus,
        "memoryMB": size.memory / MIB,
        "diskSizeMB": size.disk / MIB,
        "metadata": session.labels,
        "state": state_of(session),
        "envdVersion": ENVD_VERSION,
        "volumeMounts": [],
    });
    if let Some(alias) = &note.alias {
        listed["alias"] = alias.as_str().into();
    }
    listed
}
