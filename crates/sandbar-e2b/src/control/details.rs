//! A sandbox as it is told to SDKs.

use jiff::{Timestamp, ToSpan as _};
use sandbar_core::{Need, OnExpiry, Result, SessionId, SessionInfo};
use serde_json::{Value, json};

use super::machine::Machine;
use crate::{
    keys::{Holder, envd_token},
    reach::Reach,
    sandbox::SandboxNote,
    surface::Surface,
    wake::is_asleep,
};

/// What envd of this version can do; SDKs ask for no more than it says.
pub(crate) const ENVD_VERSION: &str = "0.6.4";

/// Of E2B's own machines; every sandbox of a host has the same.
const CLIENT: &str = "sandbar";

const MIB: u64 = 1024 * 1024;

/// What E2B calls the state of a session.
pub(super) fn state_of(session: &SessionInfo) -> &'static str {
    if is_asleep(session.state) { "paused" } else { "running" }
}

/// When its time is up. One that was made to stay has a very long time; one that is paused has had its time.
pub(super) fn end_of(session: &SessionInfo, note: &SandboxNote) -> Timestamp {
    let far = || session.created.checked_add((24 * 365 * 20).hours()).unwrap_or(session.created);
    session.expires.or(note.end_at.filter(|_| is_asleep(session.state))).unwrap_or_else(far)
}

/// What can be limited, in the units of E2B.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) cpus: u32,
    /// Bytes.
    pub(super) memory: u64,
    pub(super) disk: u64,
}

impl Size {
    pub(super) fn of(session: &SessionInfo, note: &SandboxNote, pool: u64) -> Self {
        let machine = Machine::this();
        Self {
            cpus: note.cpu_count.unwrap_or(machine.cpus),
            memory: note.memory_mb.map_or(machine.memory, |mib| u64::from(mib) * MIB),
            disk: session.quota.map_or(pool, |quota| quota.0),
        }
    }
}

impl Surface {
    /// Bytes of the storage sandboxes without a quota share.
    pub(super) async fn pool_size(&self) -> u64 {
        self.host.health().await.space_total.0
    }

    /// What an SDK needs to work with a sandbox: only for those who may.
    pub(super) async fn handle(&self, id: &SessionId, note: &SandboxNote, reach: &Reach) -> Result<Value> {
        let access = self.host.port_access(id).await?;
        let mut handle = json!({
            "templateID": note.template,
            "sandboxID": id.as_str(),
            "clientID": CLIENT,
            "envdVersion": ENVD_VERSION,
            "domain": reach.0,
            "trafficAccessToken": (!access.public).then(|| access.token.reveal()),
        });
        if let Some(alias) = &note.alias {
            handle["alias"] = alias.as_str().into();
        }
        if note.secure {
            handle["envdAccessToken"] = envd_token(access.token.reveal()).into();
        }
        Ok(handle)
    }

    /// Everything about a sandbox that this caller may know.
    pub(super) async fn detail(
        &self,
        (holder, reach): (&Holder, &Reach),
        session: &SessionInfo,
        note: SandboxNote,
    ) -> Result<Value> {
        let mut detail = listed(session, &note, self.pool_size().await);
        let may_use = holder.grant.may(Need::UseSession(&session.id));
        detail["lifecycle"] = json!({
            "onTimeout": if note.on_expiry() == OnExpiry::Destroy { "kill" } else { "pause" },
            "autoResume": note.auto_resume,
        });
        detail["allowInternetAccess"] = note.internet.into();
        detail["domain"] = json!(reach.0);
        if may_use && let Some(token) = self.handle(&session.id, &note, reach).await?.get("envdAccessToken") {
            detail["envdAccessToken"] = token.clone();
        }
        if let Some(network) = note.network {
            let shown = if may_use { network } else { network.without_secrets() };
            detail["network"] = json!(shown);
        }
        Ok(detail)
    }
}

/// A sandbox in a list. `pool` is what those without a quota share.
pub(super) fn listed(session: &SessionInfo, note: &SandboxNote, pool: u64) -> Value {
    let size = Size::of(session, note, pool);
    let mut listed = json!({
        "templateID": note.template,
        "sandboxID": session.id.as_str(),
        "clientID": CLIENT,
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
