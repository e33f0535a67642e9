//! Running one build.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use sandbar_core::{
    BaseName, ByteCount, Error, ErrorCode, NetworkPolicy, Resources, Result, SessionId, SessionSpec,
};
use sandbar_host::Host;
use tokio_util::sync::CancellationToken;

use super::{
    builds::{BUILD_NOTE, BUILD_PREFIX},
    failure::{Failure, Part},
    layers::LayerKey,
    log::{BuildLog, Level, StepOutput},
    origin::Origin,
    plan::BuildPlan,
    steps::Done,
    try_start::try_start,
    users::provision,
};
use crate::{
    sandboxes::{Context, DEFAULT_USER, Finished, LineSink, run},
    templates::{
        Templates, catalogue::BuildStatus, ids::BUILT_BASE, settings::Settings, uploads::Uploads,
    },
};

/// Failure message of a cancelled build.
pub(super) const CANCELLED: &str = "the build was cancelled, because its template was deleted";
/// Lifetime of a build session, in case it is never destroyed.
const MAX_BUILD_TIME: Duration = Duration::from_hours(6);

/// A running build.
pub(super) struct Build {
    pub(super) templates: Arc<Templates>,
    pub(super) template: String,
    pub(super) id: String,
    pub(super) log: Arc<BuildLog>,
    pub(super) cancelled: CancellationToken,
    pub(super) cpu_count: u32,
    pub(super) memory_mb: u32,
}

/// Context of the steps.
pub(super) struct Work<'a> {
    pub(super) host: &'a Host,
    pub(super) session: &'a SessionId,
    uploads: &'a Uploads,
    cancelled: &'a CancellationToken,
}

impl Work<'_> {
    pub(super) fn uploads(&self) -> &Uploads {
        self.uploads
    }

    /// Waits until the build is cancelled.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Runs a shell command line; `None` if the build was cancelled.
    pub(super) async fn run_line(
        &self,
        line: &str,
        context: &Context<'_>,
        sink: Option<LineSink<'_>>,
    ) -> Result<Option<Finished>> {
        run(self.host, self.session, line, context, sink, self.cancelled).await
    }
}

/// Base from which a build continues, and the number of steps it already contains.
struct Begin {
    base: BaseName,
    settings: Settings,
    done: usize,
    key: Option<LayerKey>,
}

impl Build {
    /// Runs the build and records its outcome.
    pub(super) async fn run(self, plan: BuildPlan) {
        self.log.add(
            Level::Info,
            None,
            format!("Building template {}/{}", self.template, self.id),
        );
        let session = match SessionId::new(format!("{BUILD_PREFIX}{}", self.id.replace('-', ""))) {
            Ok(session) => session,
            Err(error) => return self.finish(Err(Part::Base.because(&error))).await,
        };
        let outcome = self.build(&session, &plan).await;
        if let Err(error) = self.templates.host.destroy_session(&session).await
            && error.code() != ErrorCode::SessionNotFound
        {
            tracing::warn!(%session, error = error.chain(), "session of a build not destroyed; it remains until it expires");
        }
        self.finish(outcome).await;
    }

    async fn build(
        &self,
        session: &SessionId,
        plan: &BuildPlan,
    ) -> Result<(BaseName, Settings), Failure> {
        let mut origin = self.origin(plan).await?;
        let begin = self
            .begin(plan, &origin)
            .await
            .map_err(|error| Part::Base.because(&error))?;
        let created = self.create_session(session, &begin, &origin).await;
        created.map_err(|error| Part::Base.because(&error))?;
        origin.hold = None;
        let key = if let Some(key) = begin.key {
            key
        } else {
            let identity = self.identity(&origin.base).await?.unwrap_or_default();
            LayerKey::of_origin(&identity, &origin.settings)
        };
        let settings = self
            .steps(session, plan, begin.done, begin.settings, key)
            .await?;
        let (start, ready) = plan.start();
        let settings = settings.with_start(start, ready);
        let base = self
            .save(session)
            .await
            .map_err(|error| Part::Finalize.because(&error))?;
        // Saved before the start command runs: files it leaves, such as locks, must not be part of
        // the template.
        match self.try_start(session, &settings).await {
            Ok(()) => Ok((base, settings)),
            Err(failure) => {
                let _ = self.templates.host.delete_base(&base).await;
                Err(failure)
            }
        }
    }

    /// Finds the last step for which a layer exists.
    async fn begin(&self, plan: &BuildPlan, origin: &Origin) -> Result<Begin> {
        let key = origin
            .identity
            .as_ref()
            .map(|identity| LayerKey::of_origin(identity, &origin.settings));
        let mut begin = Begin {
            base: origin.base.clone(),
            settings: origin.settings.clone(),
            done: 0,
            key: key.clone(),
        };
        let (Some(mut key), false) = (key, plan.force) else {
            return Ok(begin);
        };
        let bases = self.templates.host.list_bases().await?;
        for (number, step) in plan.steps.iter().enumerate() {
            if step.force {
                break;
            }
            key = key.after(step);
            if let Some(layer) = self.templates.layer(&key).await? {
                if !bases.iter().any(|base| base.name == layer.base) {
                    self.templates.remove_layer(&key).await?;
                    continue;
                }
                begin = Begin {
                    base: layer.base,
                    settings: layer.settings,
                    done: number + 1,
                    key: Some(key.clone()),
                };
            }
        }
        Ok(begin)
    }

    async fn create_session(
        &self,
        session: &SessionId,
        begin: &Begin,
        origin: &Origin,
    ) -> Result<()> {
        let host = &self.templates.host;
        let network = NetworkPolicy {
            allow_outbound: true,
            required: false,
            ..NetworkPolicy::default()
        };
        let spec = SessionSpec {
            id: Some(session.clone()),
            resources: Resources {
                cpus: Some(f64::from(self.cpu_count)),
                memory: Some(ByteCount::mib(self.memory_mb.into())),
                ..Resources::default()
            },
            network: Some(network),
            root_rights: self.templates.sandboxes.root_rights(),
            time_to_live: Some(MAX_BUILD_TIME),
            ..SessionSpec::new(begin.base.clone())
        };
        host.create_session(spec).await?;
        host.put_note(session, BUILD_NOTE, &self.id).await?;
        if begin.done == 0 && origin.is_bare {
            provision(host, session, DEFAULT_USER).await?;
        }
        Ok(())
    }

    async fn steps(
        &self,
        session: &SessionId,
        plan: &BuildPlan,
        done: usize,
        mut settings: Settings,
        mut key: LayerKey,
    ) -> Result<Settings, Failure> {
        let total = plan.steps.len();
        for (number, step) in plan.steps.iter().enumerate().take(done) {
            let line = format!("CACHED [builder {}/{total}] {}", number + 1, step.text());
            self.log
                .add(Level::Info, Some(&(number + 1).to_string()), line);
        }
        let store = self
            .templates
            .store()
            .await
            .map_err(|error| Part::Base.because(&error))?;
        let host = &*self.templates.host;
        let work = Work {
            host,
            session,
            uploads: &store.uploads,
            cancelled: &self.cancelled,
        };
        for (number, step) in plan.steps.iter().enumerate().skip(done) {
            let part = Part::Step(number + 1);
            if self.cancelled.is_cancelled() {
                return Err(part.failed(CANCELLED));
            }
            let (name, prefix) = (part.name(), format!("builder {}/{total}", number + 1));
            self.log.add(
                Level::Info,
                Some(&name),
                format!("[{prefix}] {}", step.text()),
            );
            let output = StepOutput {
                log: &self.log,
                prefix: &prefix,
                step: &name,
            };
            key = key.after(step);
            settings = match work
                .step(step, settings, &output)
                .await
                .map_err(|message| part.failed(message))?
            {
                Done::Changed(settings) => {
                    if let Err(error) = self.templates.save_layer(session, &key, &settings).await {
                        tracing::warn!(error = error.chain(), "layer of a build step not saved");
                    }
                    settings
                }
                Done::Unchanged(settings) => settings,
                Done::Cancelled => return Err(part.failed(CANCELLED)),
            };
        }
        Ok(settings)
    }

    async fn save(&self, session: &SessionId) -> Result<BaseName> {
        self.log.add(
            Level::Info,
            Some("finalize"),
            "[finalize] Finalizing template build",
        );
        let base = BaseName::new(format!("{BUILT_BASE}{}", self.id.replace('-', "")))?;
        self.templates
            .host
            .save_base(session, None, &base, None)
            .await?;
        Ok(base)
    }

    /// Runs the start command once, as sandboxes will.
    async fn try_start(&self, session: &SessionId, settings: &Settings) -> Result<(), Failure> {
        let Some(command) = &settings.start else {
            return Ok(());
        };
        let part = Part::Finalize;
        if !command.start.is_empty() {
            self.log.add(
                Level::Info,
                Some("finalize"),
                format!("Running start command: {}", command.start),
            );
        }
        let starting = try_start(
            &self.templates.host,
            session,
            command,
            &self.log,
            &self.cancelled,
        );
        starting.await.map_err(|message| part.failed(message))
    }

    async fn finish(&self, outcome: Result<(BaseName, Settings), Failure>) {
        let recorded = match outcome {
            Ok((base, settings)) => self.record_success(base, settings).await,
            Err(failure) => {
                self.log.add(
                    Level::Error,
                    Some(&failure.step.name()),
                    format!("Build failed: {}", failure.message),
                );
                self.record_failure(failure).await
            }
        };
        if let Err(error) = recorded {
            tracing::error!(
                build = self.id,
                error = error.chain(),
                "outcome of a build could not be recorded"
            );
        }
        self.templates.remove_leftover().await;
    }

    async fn record_success(&self, base: BaseName, settings: Settings) -> Result<()> {
        self.log
            .add(Level::Info, Some("finalize"), "Build finished");
        let catalogue = &self.templates.store().await?.catalogue;
        let recorded = catalogue
            .change(|contents| {
                let now = Timestamp::now();
                match contents.build_mut(&self.template, &self.id) {
                    Some(build) => {
                        build.status = BuildStatus::Ready;
                        (build.updated, build.finished) = (now, Some(now));
                        (build.base, build.settings) = (Some(base.clone()), settings);
                        contents.tag_ready_build(&self.template, &self.id);
                    }
                    // The template was deleted during the build.
                    None => drop(contents.leftover.insert(base.clone())),
                }
                Result::<(), Error>::Ok(())
            })
            .await;
        if recorded.is_err() {
            let _ = self.templates.host.delete_base(&base).await;
        }
        recorded
    }

    async fn record_failure(&self, failure: Failure) -> Result<()> {
        let catalogue = &self.templates.store().await?.catalogue;
        catalogue
            .change(|contents| {
                if let Some(build) = contents.build_mut(&self.template, &self.id) {
                    let now = Timestamp::now();
                    build.status = BuildStatus::Error;
                    (build.updated, build.finished) = (now, Some(now));
                    build.failure = Some(failure.into());
                    contents.prune_untagged(&self.template);
                }
                Ok(())
            })
            .await
    }
}
