//! Provider of environments on one directory, one at a time.

use std::{
    collections::HashMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use sandbar_core::{
    ByteCount, Capability, Error, ErrorCode, HOST_BASE, MutexExt as _, Resources, SessionId,
};
use sandbar_runtime::{NativeRuntime, NoneRuntime, Runtime};

use super::{
    LocalConfig, LocalEnvironment, LocalIsolation,
    session::{LocalSession, Parts, blocking},
    session_root::SessionRoot,
};
use crate::{
    EnvironmentCapabilities, EnvironmentConfig, EnvironmentError, EnvironmentProvider,
    ExecutionEnvironment, Result,
};

/// Sessions on the same directory would not be isolated from each other.
const MAX_SESSIONS: u64 = 1;

/// Provider of environments on a directory of the caller.
#[derive(Debug)]
pub struct LocalProvider {
    config: LocalConfig,
    runtime: Arc<dyn Runtime>,
    capabilities: EnvironmentCapabilities,
    sessions: Arc<Sessions>,
}

/// Open sessions. An id is reserved, as `None`, before its session is created.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<SessionId, Option<Arc<LocalSession>>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Option<Arc<LocalSession>>>> {
        self.0.lock_unpoisoned()
    }

    /// Removes a session that has ended.
    pub(super) fn remove(&self, session: &Arc<LocalSession>) {
        let mut sessions = self.lock();
        if let Some(Some(found)) = sessions.get(&session.id)
            && Arc::ptr_eq(found, session)
        {
            sessions.remove(&session.id);
        }
    }
}

/// Reservation of an id, released on drop unless a session was created.
struct Reserved<'a> {
    sessions: &'a Sessions,
    id: SessionId,
    filled: bool,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.filled {
            self.sessions.lock().remove(&self.id);
        }
    }
}

impl LocalProvider {
    /// Opens a provider and determines its capabilities. Returns an error if the requested
    /// isolation is not possible here: it is never dropped silently.
    pub async fn open(config: LocalConfig) -> Result<Self> {
        blocking(move || {
            let directory = checked(&config.directory)?;
            let runtime = open_runtime(config.isolation)?;
            if is_isolated(&*runtime) {
                writable_in_a_box(&directory)?;
            }
            let capabilities = describe(&*runtime, &directory);
            let config = LocalConfig {
                directory,
                ..config
            };
            Ok(Self {
                config,
                runtime,
                capabilities,
                sessions: Arc::default(),
            })
        })
        .await
        .map_err(EnvironmentError::of_provider)
    }

    fn reserve(&self, id: &SessionId) -> Result<Reserved<'_>> {
        let mut sessions = self.sessions.lock();
        if sessions.contains_key(id) {
            return Err(Error::new(
                ErrorCode::SessionExists,
                format!("session `{id}` exists already"),
            )
            .with_field("session_id")
            .with_hint("attach to it, or use another id")
            .into());
        }
        if sessions.len() as u64 >= MAX_SESSIONS {
            return Err(EnvironmentError::SessionLimitReached(
                Error::new(
                    ErrorCode::MaxSessionsReached,
                    format!(
                        "directory `{}` is in use by another session",
                        self.config.directory.display()
                    ),
                )
                .with_hint("destroy it first"),
            ));
        }
        sessions.insert(id.clone(), None);
        Ok(Reserved {
            sessions: &self.sessions,
            id: id.clone(),
            filled: false,
        })
    }

    fn handle(&self, session: Arc<LocalSession>) -> Arc<dyn ExecutionEnvironment> {
        Arc::new(LocalEnvironment::new(
            session,
            self.capabilities.clone(),
            Arc::clone(&self.sessions),
        ))
    }

    /// Refuses options that a directory does not support.
    fn admit(&self, config: &EnvironmentConfig) -> Result<()> {
        config.session_spec()?;
        if config.base_image != HOST_BASE {
            return Err(Error::invalid(
                "base_image",
                format!("base image `{}` is not available", config.base_image),
            )
            .with_hint("use `host`, the programs of this machine")
            .into());
        }
        let options = &config.options;
        let unknown = [
            ("quota", options.quota.is_some()),
            ("time_to_live", options.time_to_live.is_some()),
            ("idle_timeout", options.idle_timeout.is_some()),
            (
                "network",
                options
                    .network
                    .as_ref()
                    .is_some_and(|policy| policy.required || !policy.is_closed()),
            ),
        ];
        if let Some((field, _)) = unknown.into_iter().find(|(_, given)| *given) {
            return Err(Error::invalid(
                field,
                format!("`{field}` is not supported by a local environment"),
            )
            .with_hint("leave it out, or use a Sandbar host")
            .into());
        }
        Ok(self.runtime.admit(&options.resources, None)?)
    }
}

#[async_trait]
impl EnvironmentProvider for LocalProvider {
    async fn capabilities(&self) -> Result<EnvironmentCapabilities> {
        Ok(self.capabilities.clone())
    }

    async fn create(&self, config: EnvironmentConfig) -> Result<Arc<dyn ExecutionEnvironment>> {
        self.admit(&config)?;
        self.capabilities.require_all(&config.required)?;
        let mut reserved = self.reserve(&config.session_id)?;
        let (directory, runtime) = (self.config.directory.clone(), Arc::clone(&self.runtime));
        let (tool_timeout, pause_drain_timeout) =
            (self.config.tool_timeout, self.config.pause_drain_timeout);
        let session = blocking(move || {
            let root = SessionRoot::open(&directory, is_isolated(&*runtime))?;
            let resources = config.options.resources.or(&default_resources(&*runtime));
            let (id, env) = (config.session_id, config.options.env);
            LocalSession::new(Parts {
                id,
                runtime,
                root,
                env,
                resources,
                tool_timeout,
                pause_drain_timeout,
            })
        });
        let session = Arc::new(session.await?);
        self.sessions
            .lock()
            .insert(session.id.clone(), Some(Arc::clone(&session)));
        reserved.filled = true;
        Ok(self.handle(session))
    }

    async fn attach(&self, session: &SessionId) -> Result<Arc<dyn ExecutionEnvironment>> {
        let found = self.sessions.lock().get(session).cloned().flatten();
        found
            .map(|session| self.handle(session))
            .ok_or_else(|| EnvironmentError::SessionNotFound {
                session: session.clone(),
            })
    }
}

/// Returns the canonical path of the directory. `/` and paths that are not UTF-8 are refused.
fn checked(directory: &Path) -> sandbar_core::Result<PathBuf> {
    let shown = directory.display();
    let refuse = |why: &str| {
        Error::invalid("directory", format!("`{shown}` {why}"))
            .with_hint("give the path of a directory other than `/`")
    };
    let real = directory
        .canonicalize()
        .map_err(|error| refuse("is not a directory").with_source(error))?;
    if !real.is_dir() {
        return Err(refuse("is not a directory"));
    }
    if real.parent().is_none() {
        return Err(refuse("is the root directory"));
    }
    if real.to_str().is_none() {
        return Err(refuse("is not UTF-8"));
    }
    Ok(real)
}

/// Checks that commands in a box can write to the directory. They run as uid 0 without
/// capabilities, so they can write only where the owner or the mode allows it; tools on files run
/// with capabilities and could write anywhere.
fn writable_in_a_box(directory: &Path) -> sandbar_core::Result<()> {
    let failed = |error| Error::io(format!("could not stat `{}`", directory.display()), error);
    let metadata = directory.metadata().map_err(failed)?;
    if metadata.uid() == 0 || metadata.mode() & 0o002 != 0 {
        return Ok(());
    }
    let (shown, owner) = (directory.display(), metadata.uid());
    Err(Error::invalid(
        "directory",
        format!("directory `{shown}` belongs to uid {owner} and is not writable in a box"),
    )
    .with_hint("give it to root, run as that user, or choose `LocalIsolation::Unboxed`"))
}

fn open_runtime(isolation: LocalIsolation) -> sandbar_core::Result<Arc<dyn Runtime>> {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    // Opening a runtime ends processes of an earlier one of the same name, so each needs a unique
    // name.
    let name = format!(
        "sandbar-local-{}-{}",
        std::process::id(),
        OPENED.fetch_add(1, Ordering::Relaxed)
    );
    let root = rustix::process::geteuid().is_root();
    match isolation {
        LocalIsolation::Boxed if !root => Err(Error::new(
            ErrorCode::PermissionDenied,
            "mounting a directory into a box needs root",
        )
        .with_hint("run as root, or choose `LocalIsolation::Auto`")),
        LocalIsolation::Auto if !root => Ok(Arc::new(NoneRuntime::open(&name)?)),
        LocalIsolation::Auto | LocalIsolation::Boxed => Ok(Arc::new(NativeRuntime::open(&name)?)),
        LocalIsolation::Unboxed => Ok(Arc::new(NoneRuntime::open(&name)?)),
    }
}

fn is_isolated(runtime: &dyn Runtime) -> bool {
    runtime.kind() != sandbar_core::RuntimeKind::None
}

/// Returns the default limits of a host, as far as the runtime enforces them.
fn default_resources(runtime: &dyn Runtime) -> Resources {
    let pids = runtime.facts().limits.is_yes().then_some(1024);
    Resources {
        pids,
        output: Some(ByteCount::mib(10)),
        ..Resources::default()
    }
}

fn describe(runtime: &dyn Runtime, directory: &Path) -> EnvironmentCapabilities {
    let not_copied = || {
        Capability::no(format!(
            "`{}` is used in place, without copies",
            directory.display()
        ))
    };
    EnvironmentCapabilities {
        snapshots: not_copied(),
        rollback: not_copied(),
        pause: runtime.facts().pause.clone(),
        streaming_progress: Capability::Yes,
        tier_routing: Capability::Yes,
        fork: not_copied(),
        max_session_duration: None,
        concurrent_sessions: Some(MAX_SESSIONS),
        isolation: runtime.isolation().to_owned(),
    }
}
