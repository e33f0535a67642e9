//! One build from beginning to end.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use sandbar_core::{BaseName, ByteCount, Error, ErrorCode, NetworkPolicy, Resources, Result, SessionId, SessionSpec};
use sandbar_host::Host;
use tokio_util::sync::CancellationToken;

use super::{
    BUILD_NOTE, BUILD_PREFIX, CANCELLED,
    failure::{Failure, Part},
    layers::LayerKey,
    log::{BuildLog, Level},
    origin::Origin,
    people::provision,
    plan::BuildPlan,
    shell::{self, Context, Ended, Said},
    steps::Done,
};
use crate::{
    sandbox::DEFAULT_USER,
    surface::Surface,
    templates::{BUILT_BASE, catalogue::BuildStatus, settings::Settings, start, uploads::Uploads},
};

/// A session of a build nobody ends is ended by the host after this.
const LONGEST_BUILD: Duration = Duration::from_hours(6);

/// A build under way.
pub(super) struct Build {
    pub(super) surface: Arc<Surface>,
    pub(super) template: String,
    pub(super) id: String,
    pub(super) log: Arc<BuildLog>,
    pub(super) cancelled: CancellationToken,
    pub(super) cpu_count: u32,
    pub(super) memory_mb: u32,
}

/// What steps work on.
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

    pub(super) async fn line(
        &self,
        line: &str,
        context: &Context<'_>,
        said: Option<&Said<'_>>,
    ) -> Result<Option<Ended>> {
        shell::run(self.host, self.session, line, context, said, self.cancelled).await
    }
}

/// Where a build goes on: after how many steps, from which base.
struct Begin {
    base: BaseName,
    settings: Settings,
    done: usize,
    key: Option<LayerKey>,
}

impl Build {
    /// Does everything, and writes down what came of it.
    pub(super) async fn run(self, plan: BuildPlan) {
        self.log.say(Level::Info, None, format!("Building template {}/{}", self.template, self.id));
        let session = match SessionId::new(format!("{BUILD_PREFIX}{}", self.id.replace('-', ""))) {
            Ok(session) => session,
            Err(error) => return self.finish(Err(Part::Base.because(&error))).await,
        };
        let outcome = self.build(&session, &plan).await;
        if let Err(error) = self.surface.host.destroy_session(&session).await
            && error.code() != ErrorCode::SessionNotFound
        {
            tracing::warn!(%session, error = error.chain(), "the session of a build stays until its time is up");
        }
        self.finish(outcome).await;
    }

    async fn build(&self, session: &SessionId, plan: &BuildPlan) -> Result<(BaseName, Settings), Failure> {
        let mut origin = self.origin(plan).await?;
        let begin = self.begin(plan, &origin).await.map_err(|error| Part::Base.because(&error))?;
        let made = self.make_session(session, &begin, &origin).await;
        made.map_err(|error| Part::Base.because(&error))?;
        origin.hold = None;
        let key = if let Some(key) = begin.key {
            key
        } else {
            let identity = self.identity(&origin.base).await?.unwrap_or_default();
            LayerKey::of_origin(&identity, &origin.settings)
        };
        let settings = self.steps(session, plan, begin.done, begin.settings, key).await?;
        let (start, ready) = plan.start();
        let settings = settings.with_start(start, ready);
        let base = self.save(session).await.map_err(|error| Part::Finalize.because(&error))?;
        // Files are kept as they were before: what the program leaves behind, such as its lock, is not for the next one.
        match self.try_start(session, &settings).await {
            Ok(()) => Ok((base, settings)),
            Err(failure) => {
                let _ = self.surface.host.delete_base(&base).await;
                Err(failure)
            }
        }
    }

    /// The last step that was done before, with the same ones before it.
    async fn begin(&self, plan: &BuildPlan, origin: &Origin) -> Result<Begin> {
        let key = origin.identity.as_ref().map(|identity| LayerKey::of_origin(identity, &origin.settings));
        let mut begin =
            Begin { base: origin.base.clone(), settings: origin.settings.clone(), done: 0, key: key.clone() };
        let (Some(mut key), false) = (key, plan.force) else { return Ok(begin) };
        let bases = self.surface.host.list_bases().await?;
        for (number, step) in plan.steps.iter().enumerate() {
            if step.force {
                break;
            }
            key = key.after(step);
            if let Some(layer) = self.surface.layer(&key).await? {
                if !bases.iter().any(|base| base.name == layer.base) {
                    self.surface.forget_layer(&key).await?;
                    continue;
                }
                begin = Begin { base: layer.base, settings: layer.settings, done: number + 1, key: Some(key.clone()) };
            }
        }
        Ok(begin)
    }

    async fn make_session(&self, session: &SessionId, begin: &Begin, origin: &Origin) -> Result<()> {
        let host = &self.surface.host;
        let network = NetworkPolicy { allow_outbound: true, required: false, ..NetworkPolicy::default() };
        let spec = SessionSpec {
            id: Some(session.clone()),
            resources: Resources {
                cpus: Some(f64::from(self.cpu_count)),
                memory: Some(ByteCount::mib(self.memory_mb.into())),
                ..Resources::default()
            },
            network: Some(network),
            root_rights: self.surface.root_rights(),
            time_to_live: Some(LONGEST_BUILD),
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
            let said = format!("CACHED [builder {}/{total}] {}", number + 1, step.text());
            self.log.say(Level::Info, Some(&(number + 1).to_string()), said);
        }
        let templates = self.surface.templates().await.map_err(|error| Part::Base.because(&error))?;
        let host = &*self.surface.host;
        let work = Work { host, session, uploads: &templates.uploads, cancelled: &self.cancelled };
        for (number, step) in plan.steps.iter().enumerate().skip(done) {
            let part = Part::Step(number + 1);
            if self.cancelled.is_cancelled() {
                return Err(part.failed(CANCELLED));
            }
            let (name, prefix) = (part.name(), format!("builder {}/{total}", number + 1));
            self.log.say(Level::Info, Some(&name), format!("[{prefix}] {}", step.text()));
            let said = Said { log: &self.log, prefix: &prefix, step: &name };
            key = key.after(step);
            settings = match work.step(step, settings, &said).await.map_err(|message| part.failed(message))? {
                Done::Changed(settings) => {
                    if let Err(error) = self.surface.keep_layer(session, &key, &settings).await {
                        tracing::warn!(error = error.chain(), "a step of a build is not kept for the next one");
                    }
                    settings
                }
                Done::Noted(settings) => settings,
                Done::Cancelled => return Err(part.failed(CANCELLED)),
            };
        }
        Ok(settings)
    }

    async fn save(&self, session: &SessionId) -> Result<BaseName> {
        self.log.say(Level::Info, Some("finalize"), "[finalize] Finalizing template build");
        let base = BaseName::new(format!("{BUILT_BASE}{}", self.id.replace('-', "")))?;
        self.surface.host.save_base(session, None, &base, None).await?;
        Ok(base)
    }

    /// Runs the program once, as sandboxes will.
    async fn try_start(&self, session: &SessionId, settings: &Settings) -> Result<(), Failure> {
        let Some(command) = &settings.start else { return Ok(()) };
        let part = Part::Finalize;
        if !command.start.is_empty() {
            self.log.say(Level::Info, Some("finalize"), format!("Running start command: {}", command.start));
        }
        let starting = start::try_out(&self.surface.host, session, command, &self.log, &self.cancelled);
        starting.await.map_err(|message| part.failed(message))
    }

    async fn finish(&self, outcome: Result<(BaseName, Settings), Failure>) {
        let written = match outcome {
            Ok((base, settings)) => self.record_success(base, settings).await,
            Err(failure) => {
                self.log.say(Level::Error, Some(&failure.step.name()), format!("Build failed: {}", failure.message));
                self.record_failure(failure).await
            }
        };
        if let Err(error) = written {
            tracing::error!(build = self.id, error = error.chain(), "what came of a build could not be written down");
        }
        self.surface.remove_leftover().await;
    }

    async fn record_success(&self, base: BaseName, settings: Settings) -> Result<()> {
        self.log.say(Level::Info, Some("finalize"), "Build finished");
        let catalogue = &self.surface.templates().await?.catalogue;
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
                    // The template was deleted meanwhile.
                    None => drop(contents.leftover.insert(base.clone())),
                }
                Result::<(), Error>::Ok(())
            })
            .await;
        if recorded.is_err() {
            let _ = self.surface.host.delete_base(&base).await;
        }
        recorded
    }

    async fn record_failure(&self, failure: Failure) -> Result<()> {
        let catalogue = &self.surface.templates().await?.catalogue;
        catalogue
            .change(|contents| {
                if let Some(build) = contents.build_mut(&self.template, &self.id) {
                    let now = Timestamp::now();
                    build.status = BuildStatus::Error;
                    (build.updated, build.finished) = (now, Some(now));
                    build.failure = Some(failure.into());
                    contents.forget_untagged(&self.template);
                }
                Ok(())
            })
            .await
    }
}
