//! State of templates.

use std::sync::Arc;

use sandbar_core::Result;
use sandbar_host::Host;
use tokio::sync::OnceCell;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{build::Builds, catalogue::Catalogue, uploads::Uploads};
use crate::sandboxes::Sandboxes;

/// Shared state of the handlers and builds of templates.
#[derive(Debug)]
pub(crate) struct Templates {
    pub(super) host: Arc<Host>,
    pub(super) sandboxes: Arc<Sandboxes>,
    store: OnceCell<TemplateStore>,
    /// Cancelled at shutdown, which aborts builds. The next start removes what they leave.
    pub(super) shutdown: CancellationToken,
    /// Owns the tasks of builds.
    pub(super) tasks: TaskTracker,
}

/// Catalogue, archives and builds, opened on first use.
#[derive(Debug)]
pub(super) struct TemplateStore {
    pub(super) catalogue: Catalogue,
    pub(super) uploads: Uploads,
    pub(super) builds: Builds,
}

impl Templates {
    pub(crate) fn new(
        host: Arc<Host>,
        sandboxes: Arc<Sandboxes>,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            host,
            sandboxes,
            store: OnceCell::new(),
            shutdown,
            tasks: TaskTracker::new(),
        }
    }

    /// Waits for the tasks of builds, after `shutdown` was cancelled.
    pub(crate) async fn closed(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(super) async fn store(&self) -> Result<&TemplateStore> {
        self.store.get_or_try_init(|| self.open_store()).await
    }

    async fn open_store(&self) -> Result<TemplateStore> {
        let directory = self.host.directory_for("e2b")?;
        let store = TemplateStore {
            catalogue: Catalogue::open(directory.join("templates.json"))?,
            uploads: Uploads::open(directory.join("files"))?,
            builds: Builds::default(),
        };
        self.recover(&store).await?;
        Ok(store)
    }
}
