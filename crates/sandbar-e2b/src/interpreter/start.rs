//! Starting the server in a sandbox.

use std::time::Duration;

use sandbar_core::{ProcessId, ProcessSpec, Readiness, Result, SessionId, StdinMode, WaitFor};
use sandbar_host::Host;

use super::{
    PORT,
    bundle::{START, bundle},
};
use crate::{envd::variables, sandbox::SandboxNote};

/// What the process is found by.
const TAG: &str = "sandbar:code-interpreter";

/// The processes of E2B it is in place of: programs that want the interpreter restarted kill them by these names.
const IN_PLACE_OF: &str = "in place of: uvicorn main:app, jupyter-server";

/// How long it may take on a machine that has much else to do.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// Whether a process is the server: ours, and no command of the user.
pub(crate) fn is_interpreter(spec: &ProcessSpec) -> bool {
    spec.tag.as_deref() == Some(TAG)
}

/// Launches the server. It runs as root, as E2B has it: contexts may be made in any directory.
pub(super) async fn launch(host: &Host, session: &SessionId, note: &SandboxNote) -> Result<ProcessId> {
    let port = PORT.to_string();
    let told = variables(session, note).map(|(name, value)| (name.to_owned(), value.to_owned()));
    let spec = ProcessSpec {
        env: told.collect(),
        cwd: Some("/".into()),
        stdin: StdinMode::Piped,
        ready: Readiness::Tcp { port: Some(PORT) },
        ready_timeout: READY_TIMEOUT,
        tag: Some(TAG.into()),
        // Without what the sandbox's own variables and directories would bring in.
        ..ProcessSpec::new(["python3", "-I", "-c", START, "0", "sandbar_server.main", &port, IN_PLACE_OF])
    };
    Ok(host.launch_process(session, spec).await?.id)
}

/// Gives the server its sources, and waits until it listens. They go through its input, so that the sandbox has no file
/// of them.
pub(super) async fn make_ready(host: &Host, session: &SessionId, process: &ProcessId) -> Result<()> {
    let given = async {
        host.write_process_stdin(session, process, bundle()).await?;
        host.close_process_stdin(session, process).await
    };
    // Input fails once the server has ended; waiting for it then reports why.
    let given = given.await;
    host.wait_process(session, process, WaitFor::Ready).await?;
    given
}
