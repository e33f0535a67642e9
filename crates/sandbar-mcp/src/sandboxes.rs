//! Default sandbox of calls that name none.

use std::sync::Arc;

use sandbar_client::Client;
use sandbar_core::{BaseName, Error, ErrorCode, Result, SessionId, SessionSpec};
use tokio::sync::Mutex;

/// Label of sandboxes created for a connection.
const LABEL: (&str, &str) = ("made-by", "sandbar-mcp");

/// Sandbox of calls that name none.
#[derive(Clone, Debug)]
pub struct DefaultSandbox(Choice);

#[derive(Clone, Debug)]
enum Choice {
    Nothing,
    Given(SessionId),
    Only(SessionId),
    Scratch(Scratch),
}

/// Sandbox that is created when the first call needs it.
#[derive(Clone, Debug)]
struct Scratch {
    base: BaseName,
    keep: bool,
    state: Arc<Mutex<ScratchState>>,
}

/// State of a scratch sandbox.
#[derive(Clone, Debug, Default)]
enum ScratchState {
    #[default]
    NotCreated,
    Created(SessionId),
    /// The connection is closed, and no sandbox is created for it any more.
    Closed,
}

impl DefaultSandbox {
    /// Returns no default: every call has to name its sandbox.
    pub fn nothing() -> Self {
        Self(Choice::Nothing)
    }

    /// Returns a fixed default. Calls may name other sandboxes.
    pub fn given(id: SessionId) -> Self {
        Self(Choice::Given(id))
    }

    /// Returns a fixed sandbox, and rejects calls that name another one. This is defence in depth:
    /// the token of the caller must have scope for this sandbox only.
    pub fn only(id: SessionId) -> Self {
        Self(Choice::Only(id))
    }

    /// Returns a sandbox that is created on first use, and destroyed by [`close`](Self::close)
    /// unless `keep` is set.
    pub fn scratch(base: BaseName, keep: bool) -> Self {
        Self(Choice::Scratch(Scratch {
            base,
            keep,
            state: Arc::default(),
        }))
    }

    /// Reports whether a call has to name its sandbox.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.0, Choice::Nothing)
    }

    /// Describes parameter `sandbox` for the model.
    pub(crate) fn explain(&self) -> String {
        match &self.0 {
            Choice::Nothing => "Id of the sandbox, from sandbox_create or sandbox_list.".into(),
            Choice::Given(id) => format!("Id of the sandbox. Default: `{id}`."),
            Choice::Only(id) => format!("Must be `{id}`, which is also the default."),
            Choice::Scratch(_) => {
                "Id of the sandbox. Default: a sandbox of this connection, created on first use."
                    .into()
            }
        }
    }

    /// Returns the sandbox that calls are confined to, if any.
    pub(crate) fn only_one(&self) -> Option<&SessionId> {
        match &self.0 {
            Choice::Only(id) => Some(id),
            Choice::Nothing | Choice::Given(_) | Choice::Scratch(_) => None,
        }
    }

    /// Rejects a sandbox other than the one that this connection is confined to.
    pub(crate) fn permit(&self, asked: &SessionId) -> Result<()> {
        match self.only_one() {
            Some(only) if only != asked => {
                let message = format!(
                    "sandbox `{asked}` is outside of this connection, which is confined to `{only}`"
                );
                Err(Error::new(ErrorCode::PermissionDenied, message)
                    .with_hint(format!("omit `sandbox`, or pass `{only}`")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the base of new sandboxes that name none.
    pub(crate) fn base(&self) -> Result<BaseName> {
        match &self.0 {
            Choice::Scratch(scratch) => Ok(scratch.base.clone()),
            _ => BaseName::new("host"),
        }
    }

    /// Returns the sandbox of a call. Creates the scratch sandbox on first use.
    pub(crate) async fn resolve(
        &self,
        client: &Client,
        asked: Option<SessionId>,
    ) -> Result<SessionId> {
        match (asked, &self.0) {
            (Some(id), _) => self.permit(&id).map(|()| id),
            (None, Choice::Given(id) | Choice::Only(id)) => Ok(id.clone()),
            (None, Choice::Scratch(scratch)) => scratch.get(client).await,
            (None, Choice::Nothing) => Err(Error::invalid("sandbox", "parameter `sandbox` is missing").with_hint(
                "pass a sandbox id; sandbox_create creates a sandbox, sandbox_list lists existing ones",
            )),
        }
    }

    /// Clears a scratch sandbox that was destroyed: the next call that needs one creates another.
    pub(crate) async fn clear(&self, id: &SessionId) {
        if let Choice::Scratch(scratch) = &self.0 {
            let mut state = scratch.state.lock().await;
            if matches!(&*state, ScratchState::Created(state) if state == id) {
                *state = ScratchState::NotCreated;
            }
        }
    }

    /// Destroys the scratch sandbox of this connection. Returns its id if it is kept.
    pub async fn close(&self, client: &Client) -> Result<Option<SessionId>> {
        let Choice::Scratch(scratch) = &self.0 else {
            return Ok(None);
        };
        // The lock waits for a creation in progress.
        let state = std::mem::replace(&mut *scratch.state.lock().await, ScratchState::Closed);
        let ScratchState::Created(id) = state else {
            return Ok(None);
        };
        if scratch.keep {
            return Ok(Some(id));
        }
        match client.destroy_session(&id).await {
            Err(error) if error.code() != ErrorCode::SessionNotFound => Err(error),
            _ => Ok(None),
        }
    }
}

impl Scratch {
    async fn get(&self, client: &Client) -> Result<SessionId> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        match &*state {
            ScratchState::Created(id) => return Ok(id.clone()),
            ScratchState::Closed => {
                return Err(Error::new(
                    ErrorCode::Unavailable,
                    "MCP connection is closed",
                ));
            }
            ScratchState::NotCreated => {}
        }
        let mut spec = SessionSpec::new(self.base.clone());
        spec.labels.insert(LABEL.0.into(), LABEL.1.into());
        let client = client.clone();
        // In a task of its own, which holds the lock: if the call is cancelled now, the id of the
        // new sandbox must still be recorded.
        #[expect(
            clippy::disallowed_methods,
            reason = "must complete even if the call is cancelled"
        )]
        let creation = tokio::spawn(async move {
            let id = client.create_session(spec).await?.id;
            *state = ScratchState::Created(id.clone());
            Ok(id)
        });
        creation.await.map_err(|error| {
            Error::internal("creation of the sandbox panicked").with_source(error)
        })?
    }
}
