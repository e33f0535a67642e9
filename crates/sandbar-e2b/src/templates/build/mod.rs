//! Builds: started, watched, cancelled, and cleaned up after a crash.

mod archive;
mod copy;
mod failure;
mod images;
mod layers;
mod log;
mod merge;
mod origin;
mod people;
mod plan;
mod runner;
mod shell;
mod steps;
mod variables;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::StatusCode;
use jiff::Timestamp;
use sandbar_core::{Actor, ErrorCode, Result};
use sandbar_host::acting_as;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(super) use log::{BuildLog, Level, LogEntry};
pub(super) use plan::BuildPlan;
pub(super) use shell::{Context, Said, command, run};

use super::{
    Answer, Templates,
    catalogue::{BuildFailure, BuildStatus},
    no_build, not_found, with_status,
};
use crate::{keys::Holder, surface::Surface};
use images::Images;
use runner::Build;

/// What ids of sessions that build begin with: they are nobody's sandboxes.
pub(crate) const BUILD_PREFIX: &str = "e2bbuild";
/// The note of such a session: the build it is for.
const BUILD_NOTE: &str = "e2b-build";
const CANCELLED: &str = "the build was cancelled, because its template was deleted";
/// Builds at once; others wait.
const AT_ONCE: usize = 4;
/// Builds whose lines are remembered.
const LOGS: usize = 100;

/// Builds of this host's lifetime.
#[derive(Debug)]
pub(crate) struct Builds {
    known: Mutex<HashMap<String, Known>>,
    places: Arc<Semaphore>,
    images: Images,
}

#[derive(Debug)]
struct Known {
    log: Arc<BuildLog>,
    cancelled: CancellationToken,
    since: Timestamp,
}

impl Default for Builds {
    fn default() -> Self {
        Self { known: Mutex::default(), places: Arc::new(Semaphore::new(AT_ONCE)), images: Images::default() }
    }
}

impl Builds {
    pub(super) fn log(&self, build: &str) -> Option<Arc<BuildLog>> {
        self.known().get(build).map(|known| Arc::clone(&known.log))
    }

    pub(super) fn cancel(&self, build: &str) {
        if let Some(known) = self.known().get(build) {
            known.cancelled.cancel();
        }
    }

    fn add(&self, build: &str) -> (Arc<BuildLog>, CancellationToken) {
        let (log, cancelled) = (Arc::<BuildLog>::default(), CancellationToken::new());
        let mut known = self.known();
        if known.len() >= LOGS
            && let Some(oldest) = known.iter().min_by_key(|(_, known)| known.since).map(|(build, _)| build.clone())
        {
            known.remove(&oldest);
        }
        let entry = Known { log: Arc::clone(&log), cancelled: cancelled.clone(), since: Timestamp::now() };
        known.insert(build.to_owned(), entry);
        (log, cancelled)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a build that was asked for. It goes on by itself.
pub(super) async fn start(
    surface: &Arc<Surface>,
    holder: &Holder,
    template: String,
    build: String,
    plan: BuildPlan,
) -> Answer<()> {
    let templates = surface.templates().await?;
    let (template, cpu_count, memory_mb) = templates
        .catalogue
        .change(|contents| {
            let found = contents.template(&template).map(|(id, _)| id.to_owned());
            let id = found.ok_or_else(|| not_found(&template))?;
            let record = contents.build_mut(&id, &build).ok_or_else(|| no_build(&build))?;
            if record.status != BuildStatus::Waiting {
                return Err(with_status(StatusCode::CONFLICT, "the build was started already (ask for another one)"));
            }
            (record.status, record.updated) = (BuildStatus::Building, Timestamp::now());
            Answer::Ok((id, record.cpu_count, record.memory_mb))
        })
        .await?;
    let (log, cancelled) = templates.builds.add(&build);
    let places = Arc::clone(&templates.builds.places);
    let work = Build { surface: Arc::clone(surface), template, id: build, log, cancelled, cpu_count, memory_mb };
    let actor = Actor::new(&holder.name).unwrap_or_else(|_| Actor::host());
    tokio::spawn(acting_as(actor, async move {
        // The semaphore is never closed.
        let _place = places.acquire_owned().await;
        work.run(plan).await;
    }));
    Ok(())
}

impl Surface {
    /// Removes bases nobody needs. What cannot be removed yet is tried again next time.
    pub(super) async fn remove_leftover(&self) {
        let Ok(templates) = self.templates().await else { return };
        self.remove_leftover_of(templates).await;
    }

    async fn remove_leftover_of(&self, templates: &Templates) {
        let leftover = templates.catalogue.view().leftover.clone();
        let mut gone = Vec::new();
        for base in leftover {
            match self.host.delete_base(&base).await {
                Ok(()) => gone.push(base),
                Err(error) if error.code() == ErrorCode::BaseNotFound => gone.push(base),
                Err(error) => tracing::debug!(%base, error = error.chain(), "a base nobody needs stays for now"),
            }
        }
        // After them: they may have been the last that stood on one.
        if let Err(error) = self.remove_images(templates).await {
            tracing::warn!(error = error.chain(), "images nothing stands on may be left");
        }
        if gone.is_empty() {
            return;
        }
        let forgotten = templates.catalogue.change(|contents| {
            contents.leftover.retain(|base| !gone.contains(base));
            Result::<()>::Ok(())
        });
        if let Err(error) = forgotten.await {
            tracing::warn!(error = error.chain(), "bases that are gone are still listed");
        }
    }

    /// After a start: no build goes on, and nothing of one is left.
    pub(super) async fn recover(&self, templates: &Templates) -> Result<()> {
        for (session, _) in self.host.notes(BUILD_NOTE).await? {
            if let Err(error) = self.host.destroy_session(&session).await {
                tracing::warn!(%session, error = error.chain(), "the session of a build stays until its time is up");
            }
        }
        let bases: std::collections::BTreeSet<_> =
            self.host.list_bases().await?.into_iter().map(|base| base.name).collect();
        templates
            .catalogue
            .change(|contents| {
                for build in contents.templates.values_mut().flat_map(|template| template.builds.values_mut()) {
                    if matches!(build.status, BuildStatus::Building) {
                        let message = "the host was stopped while this was built (build again)".to_owned();
                        build.status = BuildStatus::Error;
                        build.failure = Some(BuildFailure { message, step: None });
                    }
                    // Somebody may have removed it by its name.
                    if build.base.as_ref().is_some_and(|base| !bases.contains(base)) {
                        build.base = None;
                    }
                }
                contents.layers.retain(|_, layer| bases.contains(&layer.base));
                // Bases of ours nobody names: the host stopped between making one and writing it down.
                let builds = contents.templates.values().flat_map(|template| template.builds.values());
                let named: std::collections::BTreeSet<_> = builds
                    .filter_map(|build| build.base.clone())
                    .chain(contents.layers.values().map(|layer| layer.base.clone()))
                    .collect();
                let ours = |base: &&sandbar_core::BaseName| {
                    [super::BUILT_BASE, super::LAYER_BASE].iter().any(|prefix| base.as_str().starts_with(prefix))
                };
                contents.leftover.extend(bases.iter().filter(ours).filter(|base| !named.contains(*base)).cloned());
                Result::<()>::Ok(())
            })
            .await?;
        self.remove_leftover_of(templates).await;
        Ok(())
    }
}
