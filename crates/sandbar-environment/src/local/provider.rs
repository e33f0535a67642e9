//! A directory that environments can be made on, one at a time.

use std::{
    collections::HashMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use sandbar_core::{ByteCount, Capability, Error, ErrorCode, Resources, SessionId};
use sandbar_runtime::{NativeRuntime, NoneRuntime, Runtime};

use super::{
    LocalConfig, LocalEnvironment, LocalIsolation,
    session::{LocalSession, Parts, blocking},
    workplace::Workplace,
};
use crate::{
    EnvironmentCapabilities, EnvironmentConfig, EnvironmentError, EnvironmentProvider, ExecutionEnvironment, Result,
};

/// The only base there is.
const BASE: &str = "host";

/// Sessions on one directory would not be apart from each other.
const MOST_SESSIONS: u64 = 1;

/// A directory of the caller's.
#[derive(Debug)]
pub struct LocalProvider {
    config: LocalConfig,
    runtime: Arc<dyn Runtime>,
    capabilities: EnvironmentCapabilities,
    sessions: Arc<Sessions>,
}

/// The sessions that live. A place is taken before its session is made.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<SessionId, Option<Arc<LocalSession>>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Option<Arc<LocalSession>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of a session that has ended.
    pub(super) fn forget(&self, session: &Arc<LocalSession>) {
        let mut sessions = self.lock();
        if let Some(Some(found)) = sessions.get(&session.id)
            && Arc::ptr_eq(found, session)
        {
            sessions.remove(&session.id);
        }
    }
}

/// A place that is given back unless a session has come into it.
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
    /// Finds out what can be done on the directory. `ProviderUnavailable` when the walls that were asked for cannot be
    /// made here: they are never left out without a word.
    pub async fn open(config: LocalConfig) -> Result<Self> {
        blocking(move || {
            let directory = checked(&config.directory)?;
            let runtime = open_runtime(config.isolation)?;
            if has_walls(&*runtime) {
                writable_in_a_box(&directory)?;
            }
            let capabilities = describe(&*runtime, &directory);
            let config = LocalConfig { directory, ..config };
            Ok(Self { config, runtime, capabilities, sessions: Arc::default() })
        })
        .await
        .map_err(EnvironmentError::of_provider)
    }

    fn reserve(&self, id: &SessionId) -> Result<Reserved<'_>> {
        let mut sessions = self.sessions.lock();
        if sessions.contains_key(id) {
            return Err(Error::new(ErrorCode::SessionExists, format!("session `{id}` exists"))
                .with_field("session_id")
                .with_hint("attach to it, or use another id")
                .into());
        }
        if sessions.len() as u64 >= MOST_SESSIONS {
            return Err(EnvironmentError::SessionLimitReached(
                Error::new(
                    ErrorCode::MaxSessionsReached,
                    format!("another session works on `{}`", self.config.directory.display()),
                )
                .with_hint("destroy it first"),
            ));
        }
        sessions.insert(id.clone(), None);
        Ok(Reserved { sessions: &self.sessions, id: id.clone(), filled: false })
    }

    fn handle(&self, session: Arc<LocalSession>) -> Arc<dyn ExecutionEnvironment> {
        Arc::new(LocalEnvironment::new(session, self.capabilities.clone(), Arc::clone(&self.sessions)))
    }

    /// Refuses wishes that cannot be kept on a directory.
    fn admit(&self, config: &EnvironmentConfig) -> Result<()> {
        config.session_spec()?;
        if config.base_image != BASE {
            return Err(Error::invalid("base_image", format!("there is no base image `{}` here", config.base_image))
                .with_hint("use `host`: this machine's own programs")
                .into());
        }
        let options = &config.options;
        let unknown = [
            ("quota", options.quota.is_some()),
            ("time_to_live", options.time_to_live.is_some()),
            ("idle_timeout", options.idle_timeout.is_some()),
            ("network", options.network.as_ref().is_some_and(|policy| policy.required || !policy.is_closed())),
        ];
        if let Some((field, _)) = unknown.into_iter().find(|(_, asked)| *asked) {
            return Err(Error::invalid(field, format!("`{field}` cannot be kept on a directory of yours"))
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
        let (tool_timeout, pause_drain_timeout) = (self.config.tool_timeout, self.config.pause_drain_timeout);
        let session = blocking(move || {
            let workplace = Workplace::open(&directory, has_walls(&*runtime))?;
            let resources = config.options.resources.or(&default_resources(&*runtime));
            let (id, env) = (config.session_id, config.options.env);
            LocalSession::new(Parts { id, runtime, workplace, env, resources, tool_timeout, pause_drain_timeout })
        });
        let session = Arc::new(session.await?);
        self.sessions.lock().insert(session.id.clone(), Some(Arc::clone(&session)));
        reserved.filled = true;
        Ok(self.handle(session))
    }

    async fn attach(&self, session: &SessionId) -> Result<Arc<dyn ExecutionEnvironment>> {
        let found = self.sessions.lock().get(session).cloned().flatten();
        found
            .map(|session| self.handle(session))
            .ok_or_else(|| EnvironmentError::SessionNotFound { session: session.clone() })
    }
}

/// The directory as it really is. One that is everything, or that cannot be named to a command, is refused.
fn checked(directory: &Path) -> sandbar_core::Result<PathBuf> {
    let shown = directory.display();
    let refuse =
        |why: &str| Error::invalid("directory", format!("`{shown}` {why}")).with_hint("name a directory of yours");
    let real = directory.canonicalize().map_err(|error| refuse("is not a directory").with_source(error))?;
    if !real.is_dir() {
        return Err(refuse("is not a directory"));
    }
    if real.parent().is_none() {
        return Err(refuse("is the whole machine"));
    }
    if real.to_str().is_none() {
        return Err(refuse("has a name that is not text"));
    }
    Ok(real)
}

/// Commands in a box are root's without root's rights, and write only where root may by name. Tools on files could write
/// elsewhere, and then the two would not see the same directory.
fn writable_in_a_box(directory: &Path) -> sandbar_core::Result<()> {
    let failed = |error| Error::io(format!("look at `{}`", directory.display()), error);
    let metadata = directory.metadata().map_err(failed)?;
    if metadata.uid() == 0 || metadata.mode() & 0o002 != 0 {
        return Ok(());
    }
    let (shown, owner) = (directory.display(), metadata.uid());
    Err(Error::invalid("directory", format!("`{shown}` belongs to user {owner}: nothing in a box could write there"))
        .with_hint("give it to root, run as that user, or choose `LocalIsolation::Unboxed`"))
}

fn open_runtime(isolation: LocalIsolation) -> sandbar_core::Result<Arc<dyn Runtime>> {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    // Opening a runtime ends what an earlier one of the same name left running, so each has a name of its own.
    let name = format!("sandbar-local-{}-{}", std::process::id(), OPENED.fetch_add(1, Ordering::Relaxed));
    let root = rustix::process::geteuid().is_root();
    match isolation {
        LocalIsolation::Boxed if !root => {
            Err(Error::new(ErrorCode::PermissionDenied, "an ordinary user cannot mount a directory into a box")
                .with_hint("run as root, or choose `LocalIsolation::Auto`"))
        }
        LocalIsolation::Auto if !root => Ok(Arc::new(NoneRuntime::open(&name)?)),
        LocalIsolation::Auto | LocalIsolation::Boxed => Ok(Arc::new(NativeRuntime::open(&name)?)),
        LocalIsolation::Unboxed => Ok(Arc::new(NoneRuntime::open(&name)?)),
    }
}

fn has_walls(runtime: &dyn Runtime) -> bool {
    runtime.kind() != sandbar_core::RuntimeKind::None
}

/// What a host gives to sessions that ask for nothing, as far as it can be kept here.
fn default_resources(runtime: &dyn Runtime) -> Resources {
    let pids = runtime.facts().limits.is_yes().then_some(1024);
    Resources { pids, output: Some(ByteCount::mib(10)), ..Resources::default() }
}

fn describe(runtime: &dyn Runtime, directory: &Path) -> EnvironmentCapabilities {
    let yours =
        || Capability::no(format!("`{}` is yours and is worked on as it is, without copies", directory.display()));
    EnvironmentCapabilities {
        snapshots: yours(),
        rollback: yours(),
        pause: runtime.facts().pause.clone(),
        streaming_progress: Capability::Yes,
        tier_routing: Capability::Yes,
        fork: yours(),
        max_session_duration: None,
        concurrent_sessions: Some(MOST_SESSIONS),
        isolation: runtime.isolation().to_owned(),
    }
}
