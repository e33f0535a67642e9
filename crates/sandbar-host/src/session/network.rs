//! The network policy of a session: getting and setting it.

use std::{sync::Arc, time::Duration};

use sandbar_core::{
    Capability, Error, ErrorCode, NetworkPolicy, NetworkStatus, Result, RuntimeKind, SecretValue,
    SessionId, SessionState,
};
use sandbar_runtime::Sandbox;

use super::live::{Live, Session};
use crate::{
    Host,
    admission::ExclusiveWork,
    engine::Engine,
    network::Outlet,
    state::SessionRecord,
    verb::{Call, Verb},
};

impl Host {
    /// Returns the network policy of a session, whether it is enforced, and the traffic so far.
    pub async fn get_network(&self, id: &SessionId) -> Result<NetworkStatus> {
        let target = id.clone();
        self.run(Call::on(id, Verb::GetNetwork), move |engine| {
            let session = engine.session_unused(&target)?;
            engine.network_status(&session, &engine.record(&target)?)
        })
        .await
    }

    /// Sets the network policy of a session. It applies to new connections at once; open ones stay.
    ///
    /// `InvalidState` with field `network` if the change needs a new box and something runs in the
    /// current one.
    pub async fn set_network(
        &self,
        id: &SessionId,
        policy: NetworkPolicy,
    ) -> Result<NetworkStatus> {
        let target = id.clone();
        let call = Call::on(id, Verb::SetNetwork).with("network", policy.to_string());
        self.run(call, move |engine| engine.set_network(&target, &policy))
            .await
    }
}

/// Outcome of a change of policy on a running box.
enum Change {
    Done,
    /// The change needs a new box.
    NeedsBox,
}

impl Engine {
    /// Whether boxes with this policy have egress listeners.
    pub(crate) fn opens(&self, policy: &NetworkPolicy) -> bool {
        !policy.is_closed() && self.runtime.network().is_yes()
    }

    fn network_status(&self, session: &Session, record: &SessionRecord) -> Result<NetworkStatus> {
        let policy = record.network.clone().unwrap_or_default();
        let enforced = match self.runtime.kind() {
            // A network namespace without egress listeners has no route out.
            RuntimeKind::Native | RuntimeKind::Gvisor if policy.is_closed() => Capability::Yes,
            _ => self.runtime.network().clone(),
        };
        let traffic_token = Some(SecretValue::new(
            self.traffic_key.token(&record.id, record.created).reveal(),
        )?);
        Ok(NetworkStatus {
            policy,
            enforced,
            traffic: session.traffic.snapshot(),
            traffic_token,
        })
    }

    fn set_network(&self, id: &SessionId, policy: &NetworkPolicy) -> Result<NetworkStatus> {
        policy.validate()?;
        self.runtime
            .admit(&sandbar_core::Resources::default(), Some(policy))?;
        self.require_secrets(policy)?;
        let session = self.session(id)?;
        let entry = session.admission.enter_shared()?;
        self.changeable(id)?;
        let change = self.change_network(&session, policy)?;
        drop(entry);
        if matches!(change, Change::NeedsBox) {
            self.change_with_new_box(&session, policy)?;
        }
        self.network_status(&session, &self.record(id)?)
    }

    /// Changes the record and the running box. Holds `box_order`, so that a box that starts
    /// meanwhile reads the new record.
    fn change_network(&self, session: &Session, policy: &NetworkPolicy) -> Result<Change> {
        let _order = session.box_order.lock(&session.id)?;
        let sandbox = session.live_sandbox().filter(|sandbox| sandbox.is_alive());
        if sandbox.is_some() && session.live().lacks_trust(policy) && self.opens(policy) {
            return Ok(Change::NeedsBox);
        }
        let before = self.record(&session.id)?.network;
        self.state.set_network(&session.id, Some(policy))?;
        let Some(sandbox) = sandbox else {
            return Ok(Change::Done);
        };
        let applied = self.apply(session, &sandbox, policy);
        if !matches!(applied, Ok(Change::Done)) {
            // The record must not name a policy that is not applied.
            self.state.set_network(&session.id, before.as_ref())?;
        }
        applied
    }

    /// Applies a policy to a running box. The caller holds `box_order`.
    fn apply(
        &self,
        session: &Session,
        sandbox: &Arc<dyn Sandbox>,
        policy: &NetworkPolicy,
    ) -> Result<Change> {
        let outlet = session.live().outlet.take();
        if let Some(mut outlet) = outlet {
            let applied = outlet.set_policy(&**sandbox, policy);
            session.live().outlet = Some(outlet);
            return applied.map(|()| Change::Done);
        }
        if !self.opens(policy) {
            return Ok(Change::Done);
        }
        match Outlet::open_late(self, &**sandbox, &session.site(), policy) {
            Ok(outlet) => {
                session.live().outlet = Some(outlet);
                Ok(Change::Done)
            }
            // With this runtime, a box that was created closed cannot be opened.
            Err(error) if error.code() == ErrorCode::InvalidState => Ok(Change::NeedsBox),
            Err(error) => Err(error),
        }
    }

    /// Stops a box in which nothing runs. The next command starts one with the new policy.
    fn change_with_new_box(&self, session: &Session, policy: &NetworkPolicy) -> Result<()> {
        let id = &session.id;
        let hint = || format!("stop its processes first (`sandbar ps {id}`), or roll it back");
        let _entry = session
            .admission
            .enter_exclusive(ExclusiveWork::ChangingNetwork, Duration::ZERO)
            .map_err(|error| busy(id, "is in use", hint()).with_source(error))?;
        let record = self.changeable(id)?;
        if record.state == SessionState::Paused {
            return Err(busy(
                id,
                "is paused",
                format!("resume it first with `sandbar resume {id}`"),
            ));
        }
        if session.runs_something()? {
            return Err(busy(id, "has running processes", hint()));
        }
        self.state.set_network(id, Some(policy))?;
        session.stop_box().inspect_err(|_| {
            if let Err(error) = self.state.set_network(id, record.network.as_ref()) {
                tracing::error!(session = %id, error = error.chain(), "could not revert a change of the network policy");
            }
        })
    }

    /// Returns the record of a session whose policy can be changed: active, paused or hibernated.
    fn changeable(&self, id: &SessionId) -> Result<SessionRecord> {
        let record = self.record(id)?;
        if record.state == SessionState::Hibernated {
            Ok(record)
        } else {
            self.present(id)
        }
    }
}

fn busy(id: &SessionId, how: &str, hint: String) -> Error {
    Error::new(
        ErrorCode::InvalidState,
        format!("session `{id}` {how}, and this network change needs a new box"),
    )
    .with_field("network")
    .with_hint(hint)
}

impl Live {
    /// Whether the policy inspects TLS and the box was created without a session CA.
    fn lacks_trust(&self, policy: &NetworkPolicy) -> bool {
        policy.intercepts()
            && !self
                .outlet
                .as_ref()
                .is_some_and(|outlet| outlet.inspects_tls)
    }
}

impl Session {
    /// Whether anything runs in the box, daemons included.
    fn runs_something(&self) -> Result<bool> {
        if self.processes.are_running() {
            return Ok(true);
        }
        match self.live_sandbox().filter(|sandbox| sandbox.is_alive()) {
            // A runtime that does not count processes knows only the uses in progress.
            Some(sandbox) => Ok(sandbox
                .stats()?
                .processes
                .map_or_else(|| self.activity.is_held(), |count| count > 0)),
            None => Ok(false),
        }
    }
}
