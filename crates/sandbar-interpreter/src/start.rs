//! Starting the server in a sandbox.

use std::{collections::BTreeMap, time::Duration};

use sandbar_core::{ProcessId, ProcessSpec, Readiness, Result, SessionId, StdinMode, WaitFor};
use sandbar_host::Host;

use crate::bundle::{START, bundle};

/// Port of E2B's code interpreter in a sandbox.
pub const PORT: u16 = 49_999;

/// Environment variables the server is started with, beside those of the session.
pub type Environment = BTreeMap<String, String>;

/// Process tag that identifies the server.
const TAG: &str = "sandbar:code-interpreter";

/// Last argument of the server. Programs restart E2B's interpreter by killing processes with these
/// names on their command line (`pkill -f`), so ours has to match as well.
const COMMAND_LINE_MARKER: &str = "in place of: uvicorn main:app, jupyter-server";

/// Start timeout; generous for a machine under load.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns whether a process is the interpreter server and not a command of the user.
pub fn is_interpreter(spec: &ProcessSpec) -> bool {
    spec.tag.as_deref() == Some(TAG)
}

/// Launches the server as root, as E2B does: a context can be created in any directory.
pub(crate) async fn launch(
    host: &Host,
    session: &SessionId,
    environment: &Environment,
) -> Result<ProcessId> {
    let port = PORT.to_string();
    let spec = ProcessSpec {
        env: environment.clone(),
        cwd: Some("/".into()),
        stdin: StdinMode::Piped,
        ready: Readiness::Tcp { port: Some(PORT) },
        ready_timeout: READY_TIMEOUT,
        tag: Some(TAG.into()),
        // `-I`: neither `PYTHON*` variables nor modules in the working directory affect the server.
        ..ProcessSpec::new([
            "python3",
            "-I",
            "-c",
            START,
            "0",
            "sandbar_server.main",
            &port,
            COMMAND_LINE_MARKER,
        ])
    };
    Ok(host.launch_process(session, spec).await?.id)
}

/// Writes the sources to the server's standard input and waits until it listens.
pub(crate) async fn send_sources(
    host: &Host,
    session: &SessionId,
    process: &ProcessId,
) -> Result<()> {
    let sent = async {
        host.write_process_stdin(session, process, bundle()).await?;
        host.close_process_stdin(session, process).await
    };
    // If the server has exited, the write fails, but only the wait reports why.
    let sent = sent.await;
    host.wait_process(session, process, WaitFor::Ready).await?;
    sent
}
