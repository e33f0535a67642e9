//! Builds of this run of the host.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::http::StatusCode;
use jiff::Timestamp;
use sandbar_core::{Actor, MutexExt as _};
use sandbar_host::acting_as;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{BuildLog, BuildPlan, images::Images, run::Build};
use crate::{
    auth::ApiCaller,
    rest::{ApiError, ApiResult},
    templates::{
        Templates,
        catalogue::BuildStatus,
        errors::{build_not_found, not_found},
    },
};

/// Prefix of the ids of build sessions, which are not sandboxes.
pub(crate) const BUILD_PREFIX: &str = "e2bbuild";
/// Key of the note on a build session; its value is the id of the build.
pub(super) const BUILD_NOTE: &str = "e2b-build";
/// Builds that run at the same time; others wait.
const MAX_RUNNING: usize = 4;
/// Builds that run or wait; more are refused.
const MAX_UNFINISHED: usize = 64;
/// Builds whose logs are kept.
const MAX_LOGS: usize = 100;

/// Running builds, and the logs of recent ones.
#[derive(Debug)]
pub(in crate::templates) struct Builds {
    known: Mutex<HashMap<String, Known>>,
    slots: Arc<Semaphore>,
    unfinished: Arc<Semaphore>,
    pub(super) images: Images,
}

#[derive(Debug)]
struct Known {
    log: Arc<BuildLog>,
    cancelled: CancellationToken,
    since: Timestamp,
}

impl Default for Builds {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            slots: Arc::new(Semaphore::new(MAX_RUNNING)),
            unfinished: Arc::new(Semaphore::new(MAX_UNFINISHED)),
            images: Images::default(),
        }
    }
}

impl Builds {
    pub(in crate::templates) fn log(&self, build: &str) -> Option<Arc<BuildLog>> {
        self.known().get(build).map(|known| Arc::clone(&known.log))
    }

    pub(in crate::templates) fn cancel(&self, build: &str) {
        if let Some(known) = self.known().get(build) {
            known.cancelled.cancel();
        }
    }

    fn add(&self, build: &str) -> (Arc<BuildLog>, CancellationToken) {
        let (log, cancelled) = (Arc::<BuildLog>::default(), CancellationToken::new());
        let mut known = self.known();
        if known.len() >= MAX_LOGS
            && let Some(oldest) = known
                .iter()
                .min_by_key(|(_, known)| known.since)
                .map(|(build, _)| build.clone())
        {
            known.remove(&oldest);
        }
        let entry = Known {
            log: Arc::clone(&log),
            cancelled: cancelled.clone(),
            since: Timestamp::now(),
        };
        known.insert(build.to_owned(), entry);
        (log, cancelled)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock_unpoisoned()
    }
}

impl Templates {
    /// Starts a requested build in the background. Shutdown aborts it; recovery then removes its
    /// session and records the failure.
    pub(in crate::templates) async fn start_build(
        self: &Arc<Self>,
        caller: &ApiCaller,
        template: String,
        build: String,
        plan: BuildPlan,
    ) -> ApiResult<()> {
        let store = self.store().await?;
        let place = Arc::clone(&store.builds.unfinished)
            .try_acquire_owned()
            .map_err(|_| {
                ApiError::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    format!("{MAX_UNFINISHED} builds are running or waiting (try again later)"),
                )
            })?;
        let (template, cpu_count, memory_mb) = store
            .catalogue
            .change(|contents| {
                let found = contents.template(&template).map(|(id, _)| id.to_owned());
                let id = found.ok_or_else(|| not_found(&template))?;
                let record = contents
                    .build_mut(&id, &build)
                    .ok_or_else(|| build_not_found(&build))?;
                if record.status != BuildStatus::Waiting {
                    return Err(ApiError::new(
                        StatusCode::CONFLICT,
                        "build was already started (request another one)",
                    ));
                }
                (record.status, record.updated) = (BuildStatus::Building, Timestamp::now());
                ApiResult::Ok((id, record.cpu_count, record.memory_mb))
            })
            .await?;
        let (log, cancelled) = store.builds.add(&build);
        let slots = Arc::clone(&store.builds.slots);
        let work = Build {
            templates: Arc::clone(self),
            template,
            id: build,
            log,
            cancelled,
            cpu_count,
            memory_mb,
        };
        let actor = Actor::new(&caller.name).unwrap_or_else(|_| Actor::host());
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(acting_as(actor, async move {
            let building = async {
                let _place = place;
                // Fails only if the semaphore is closed, which never happens.
                let _slot = slots.acquire_owned().await;
                work.run(plan).await;
            };
            shutdown.run_until_cancelled(building).await;
        }));
        Ok(())
    }
}
