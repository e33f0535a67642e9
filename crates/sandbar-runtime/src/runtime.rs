//! The contract every runtime keeps.

use std::{fmt, path::Path, sync::Arc};

use sandbar_core::{NetworkAccess, Resources, Result, RuntimeKind, SessionId};

use crate::{ExecSpec, RunningCommand};

/// A way to run commands over a mounted session root. Calls block; the host makes them on threads of their own, inside
/// its tokio runtime.
///
/// What an implementation must keep, and the conformance suite checks:
/// - Opening a runtime ends whatever an earlier host of the same name left running.
/// - What a session or a call asks for and the runtime cannot keep is refused by [`admit`](Self::admit), never dropped.
/// - [`isolation`](Self::isolation) tells the boundary there really is on this machine.
pub trait Runtime: fmt::Debug + Send + Sync {
    fn kind(&self) -> RuntimeKind;

    /// The boundary sessions really have, in words.
    fn isolation(&self) -> &str;

    /// Refuses, with `InvalidArgument` naming the field, a wish this runtime cannot keep.
    fn admit(&self, resources: &Resources, network: Option<NetworkAccess>) -> Result<()>;

    /// A sandbox over `root`, the mounted tree of `session`. At most one lives for a session at a time.
    fn open_sandbox(&self, session: &SessionId, root: &Path) -> Result<Arc<dyn Sandbox>>;
}

/// Where the commands of one session run.
///
/// What an implementation must keep:
/// - A command sees exactly the environment it was given, below the defaults of the runtime, and three descriptors.
/// - A command that cannot start is an error and leaves nothing: an unknown program is `FileNotFound` naming `argv`
///   (exit code 127 in a shell), one that is not executable `InvalidArgument` naming `argv` (126), a missing working
///   directory `InvalidArgument` naming `cwd`.
/// - A timeout, or dropping the [`RunningCommand`], ends the command with everything it started, daemons included.
/// - What a finished command left in the background lives until the sandbox is stopped.
pub trait Sandbox: fmt::Debug + Send + Sync {
    /// Starts a command. `spec.env` is everything beyond the defaults of the runtime, `spec.resources` is final.
    fn exec(&self, spec: ExecSpec) -> Result<RunningCommand>;

    /// Ends everything that runs here and lets go of the root. Afterwards `exec` is refused. Stopping twice is fine.
    fn stop(&self) -> Result<()>;
}
