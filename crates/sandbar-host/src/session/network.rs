//! What a session may reach: asked for, and changed.

use std::{sync::Arc, time::Duration};

use sandbar_core::{
    Capability, Error, ErrorCode, NetworkPolicy, NetworkStatus, Result, RuntimeKind, SecretValue, SessionId,
    SessionState,
};
use sandbar_runtime::Sandbox;

use super::{Live, Session};
use crate::{
    Host,
    gate::Closing,
    host::Inner,
    network::Outlet,
    state::SessionRecord,
    verb::{Call, Verb},
};

impl Host {
    /// What counts for the network of a session, whether it is kept, and what went through.
    pub async fn get_network(&self, id: &SessionId) -> Result<NetworkStatus> {
        let target = id.clone();
        self.run(Call::on(id, Verb::GetNetwork), move |inner| {
            let session = inner.session_unused(&target)?;
            inner.network_status(&session, &inner.record(&target)?)
        })
        .await
    }

    /// Changes what a session may reach. New connections go by it at once; what runs goes on.
    ///
    /// `InvalidState` naming `network` where the change needs a new box, and something runs in the present one.
    pub async fn set_network(&self, id: &SessionId, policy: NetworkPolicy) -> Result<NetworkStatus> {
        let target = id.clone();
        let call = Call::on(id, Verb::SetNetwork).with("network", policy.to_string());
        self.run(call, move |inner| inner.set_network(&target, &policy)).await
    }
}

/// How far a change came.
enum Change {
    Done,
    /// It needs another box than the present one.
    NeedsBox,
}

impl Inner {
    /// Whether boxes of sessions with this policy have a gate.
    pub(crate) fn opens(&self, policy: &NetworkPolicy) -> bool {
        !policy.is_closed() && self.runtime.network().is_yes()
    }

    fn network_status(&self, session: &Session, record: &SessionRecord) -> Result<NetworkStatus> {
        let policy = record.network.clone().unwrap_or_default();
        let enforced = match self.runtime.kind() {
            // Walls without a gate keep a session off the network all the same.
            RuntimeKind::Native | RuntimeKind::Gvisor if policy.is_closed() => Capability::Yes,
            _ => self.runtime.network().clone(),
        };
        let traffic_token = Some(SecretValue::new(self.traffic_key.token(&record.id, record.created).reveal())?);
        Ok(NetworkStatus { policy, enforced, traffic: session.traffic.snapshot(), traffic_token })
    }

    fn set_network(&self, id: &SessionId, policy: &NetworkPolicy) -> Result<NetworkStatus> {
        policy.validate()?;
        self.runtime.admit(&sandbar_core::Resources::default(), Some(policy))?;
        self.require_secrets(policy)?;
        let session = self.session(id)?;
        let entry = session.gate.enter_shared()?;
        self.changeable(id)?;
        let change = self.change_network(&session, policy)?;
        drop(entry);
        if matches!(change, Change::NeedsBox) {
            self.change_with_new_box(&session, policy)?;
        }
        self.network_status(&session, &self.record(id)?)
    }

    /// Changes the record and the box that is there. Whoever makes a box meanwhile waits, and makes it by the new record.
    fn change_network(&self, session: &Session, policy: &NetworkPolicy) -> Result<Change> {
        let mut live = session.live();
        let sandbox = live.sandbox.clone().filter(|sandbox| sandbox.is_alive());
        if sandbox.is_some() && live.lacks_trust(policy) && self.opens(policy) {
            return Ok(Change::NeedsBox);
        }
        let before = self.record(&session.id)?.network;
        self.state.set_network(&session.id, Some(policy))?;
        let Some(sandbox) = sandbox else { return Ok(Change::Done) };
        let applied = self.apply(session, &mut live, &sandbox, policy);
        if !matches!(applied, Ok(Change::Done)) {
            // What does not count must not be remembered either.
            self.state.set_network(&session.id, before.as_ref())?;
        }
        applied
    }

    /// Has a box that runs go by another policy.
    fn apply(
        &self,
        session: &Session,
        live: &mut Live,
        sandbox: &Arc<dyn Sandbox>,
        policy: &NetworkPolicy,
    ) -> Result<Change> {
        if let Some(outlet) = &mut live.outlet {
            outlet.set_policy(&**sandbox, policy)?;
            return Ok(Change::Done);
        }
        if !self.opens(policy) {
            return Ok(Change::Done);
        }
        match Outlet::open_late(self, &**sandbox, &session.site(), policy) {
            Ok(outlet) => {
                live.outlet = Some(outlet);
                Ok(Change::Done)
            }
            // A box that was made closed cannot be opened with this runtime.
            Err(error) if error.code() == ErrorCode::InvalidState => Ok(Change::NeedsBox),
            Err(error) => Err(error),
        }
    }

    /// Ends a box in which nothing runs: whatever needs one next gets one with the new network.
    fn change_with_new_box(&self, session: &Session, policy: &NetworkPolicy) -> Result<()> {
        let id = &session.id;
        let hint = || format!("end what runs in it first (`sandbar ps {id}`), or roll it back");
        let _entry = session
            .gate
            .enter_exclusive(Closing::ChangingNetwork, Duration::ZERO)
            .map_err(|error| busy(id, "is in use", hint()).with_source(error))?;
        let record = self.changeable(id)?;
        if record.state == SessionState::Paused {
            return Err(busy(id, "is paused", format!("resume it first with `sandbar resume {id}`")));
        }
        if session.runs_something()? {
            return Err(busy(id, "has something running", hint()));
        }
        self.state.set_network(id, Some(policy))?;
        session.stop_box().inspect_err(|_| {
            if let Err(error) = self.state.set_network(id, record.network.as_ref()) {
                tracing::error!(session = %id, error = error.chain(), "could not take back a change of the network");
            }
        })
    }

    /// The record of a session whose network can be changed: also one that is put away.
    fn changeable(&self, id: &SessionId) -> Result<SessionRecord> {
        let record = self.record(id)?;
        if record.state == SessionState::Hibernated { Ok(record) } else { self.present(id) }
    }
}

fn busy(id: &SessionId, how: &str, hint: String) -> Error {
    Error::new(ErrorCode::InvalidState, format!("session `{id}` {how}, and this change needs a new box"))
        .with_field("network")
        .with_hint(hint)
}

impl Live {
    /// Whether TLS is to be looked into and the box trusts nobody who could.
    fn lacks_trust(&self, policy: &NetworkPolicy) -> bool {
        policy.intercepts() && !self.outlet.as_ref().is_some_and(|outlet| outlet.looks_into_tls)
    }
}

impl Session {
    /// Whether anything runs in the box, daemons included.
    fn runs_something(&self) -> Result<bool> {
        if self.processes.are_running() {
            return Ok(true);
        }
        match self.live_sandbox().filter(|sandbox| sandbox.is_alive()) {
            // Where processes are not counted, only what somebody waits for is known.
            Some(sandbox) => Ok(sandbox.stats()?.processes.map_or_else(|| self.activity.is_held(), |count| count > 0)),
            None => Ok(false),
        }
    }

    /// Ends the box alone; files and processes that have exited stay known.
    fn stop_box(&self) -> Result<()> {
        let mut live = self.live();
        if let Some(sandbox) = &live.sandbox {
            sandbox.stop()?;
        }
        live.sandbox = None;
        live.close_outlet();
        Ok(())
    }
}
