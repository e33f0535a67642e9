//! Which sandbox a call is for when it does not say.

use std::sync::Arc;

use sandbar_client::Client;
use sandbar_core::{BaseName, Error, ErrorCode, Result, SessionId, SessionSpec};
use tokio::sync::Mutex;

/// The label of sandboxes that were made for a connection.
const LABEL: (&str, &str) = ("made-by", "sandbar-mcp");

/// The sandbox of calls that name none.
#[derive(Clone, Debug)]
pub struct DefaultSandbox(Choice);

#[derive(Clone, Debug)]
enum Choice {
    Nothing,
    Given(SessionId),
    Only(SessionId),
    Scratch(Scratch),
}

/// A sandbox that is made when the first call needs it.
#[derive(Clone, Debug)]
struct Scratch {
    base: BaseName,
    keep: bool,
    made: Arc<Mutex<Made>>,
}

/// What has become of a scratch sandbox.
#[derive(Clone, Debug, Default)]
enum Made {
    #[default]
    NotYet,
    Sandbox(SessionId),
    /// The connection is over: nothing is made for it any more.
    Closed,
}

impl DefaultSandbox {
    /// Every call has to name its sandbox.
    pub fn nothing() -> Self {
        Self(Choice::Nothing)
    }

    /// This one.
    pub fn given(id: SessionId) -> Self {
        Self(Choice::Given(id))
    }

    /// This one, and calls that name another are refused. The caller's token has to say the same: this check is the
    /// second one.
    pub fn only(id: SessionId) -> Self {
        Self(Choice::Only(id))
    }

    /// One that is made on first use and destroyed by [`close`](Self::close), unless it is to be kept.
    pub fn scratch(base: BaseName, keep: bool) -> Self {
        Self(Choice::Scratch(Scratch { base, keep, made: Arc::default() }))
    }

    /// Whether a call has to name its sandbox.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.0, Choice::Nothing)
    }

    /// What a call without a sandbox means, as told to whoever calls.
    pub(crate) fn explain(&self) -> String {
        match &self.0 {
            Choice::Nothing => "The sandbox's id, from sandbox_create or sandbox_list.".into(),
            Choice::Given(id) => format!("The sandbox's id; `{id}` when left out."),
            Choice::Only(id) => format!("`{id}`, which is used when this is left out. There is no other."),
            Choice::Scratch(_) => {
                "The sandbox's id; when left out, a sandbox of this connection's own, which is made on first use."
                    .into()
            }
        }
    }

    /// The one sandbox that may be named, if there is only one.
    pub(crate) fn only_one(&self) -> Option<&SessionId> {
        match &self.0 {
            Choice::Only(id) => Some(id),
            Choice::Nothing | Choice::Given(_) | Choice::Scratch(_) => None,
        }
    }

    /// Refuses a sandbox outside of the one this connection is confined to.
    pub(crate) fn permit(&self, asked: &SessionId) -> Result<()> {
        match self.only_one() {
            Some(only) if only != asked => {
                let message = format!("sandbox `{asked}` is not the one this connection is confined to");
                Err(Error::new(ErrorCode::PermissionDenied, message)
                    .with_hint(format!("leave `sandbox` out, or pass `{only}`")))
            }
            _ => Ok(()),
        }
    }

    /// The base of new sandboxes that name none.
    pub(crate) fn base(&self) -> Result<BaseName> {
        match &self.0 {
            Choice::Scratch(scratch) => Ok(scratch.base.clone()),
            _ => BaseName::new("host"),
        }
    }

    /// The sandbox of a call.
    pub(crate) async fn resolve(&self, client: &Client, asked: Option<SessionId>) -> Result<SessionId> {
        match (asked, &self.0) {
            (Some(id), _) => self.permit(&id).map(|()| id),
            (None, Choice::Given(id) | Choice::Only(id)) => Ok(id.clone()),
            (None, Choice::Scratch(scratch)) => scratch.get(client).await,
            (None, Choice::Nothing) => Err(Error::invalid("sandbox", "the call names no sandbox").with_hint(
                "pass the id of one as `sandbox`; sandbox_create makes one, sandbox_list shows those there are",
            )),
        }
    }

    /// This sandbox is gone: the next call that needs one gets another.
    pub(crate) async fn forget(&self, id: &SessionId) {
        if let Choice::Scratch(scratch) = &self.0 {
            let mut made = scratch.made.lock().await;
            if matches!(&*made, Made::Sandbox(made) if made == id) {
                *made = Made::NotYet;
            }
        }
    }

    /// Destroys what was made for this connection. The id of one that is kept, to be told.
    pub async fn close(&self, client: &Client) -> Result<Option<SessionId>> {
        let Choice::Scratch(scratch) = &self.0 else { return Ok(None) };
        // Waits for one that is being made just now.
        let made = std::mem::replace(&mut *scratch.made.lock().await, Made::Closed);
        let Made::Sandbox(id) = made else { return Ok(None) };
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
        let mut made = Arc::clone(&self.made).lock_owned().await;
        match &*made {
            Made::Sandbox(id) => return Ok(id.clone()),
            Made::Closed => return Err(Error::new(ErrorCode::Unavailable, "the connection is closed")),
            Made::NotYet => {}
        }
        let mut spec = SessionSpec::new(self.base.clone());
        spec.labels.insert(LABEL.0.into(), LABEL.1.into());
        let client = client.clone();
        // On a task of its own: a call that is cancelled now must not leave a sandbox nobody knows.
        let making = tokio::spawn(async move {
            let id = client.create_session(spec).await?.id;
            *made = Made::Sandbox(id.clone());
            Ok(id)
        });
        making.await.map_err(|error| Error::internal("making the sandbox broke off").with_source(error))?
    }
}
