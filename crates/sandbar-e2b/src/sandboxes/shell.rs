//! Running shell command lines in a sandbox.

use std::{collections::BTreeMap, path::Path, time::Duration};

use sandbar_core::{
    ByteCount, ErrorCode, ExecEvent, ExecSpec, ExitStatus, Resources, Result, SessionId,
};
use sandbar_host::Host;
use tokio_util::sync::CancellationToken;

use super::lines::Lines;

/// Time limit of one command line.
const MAX_RUN_TIME: Duration = Duration::from_hours(1);
const MAX_OUTPUT: ByteCount = ByteCount::gib(4);
const BASH: [&str; 2] = ["/bin/bash", "/usr/bin/bash"];
/// Shell of images without bash.
const FALLBACK_SHELL: &str = "/bin/sh";
/// Default `PATH`.
pub(crate) const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Last lines of output that are kept for an error message.
const TAIL_LINES: usize = 10;

/// User, directory and environment of a command line.
#[derive(Clone, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) user: &'a str,
    pub(crate) workdir: Option<&'a str>,
    pub(crate) env: &'a BTreeMap<String, String>,
}

/// Exit of a command line.
#[derive(Debug)]
pub(crate) struct Finished {
    status: ExitStatus,
    /// Last lines of its output.
    pub(crate) tail: Vec<String>,
}

impl Finished {
    pub(crate) fn is_success(&self) -> bool {
        self.status.code == Some(0) && !self.status.timed_out
    }

    /// Returns the reason of a failure as a shell would print it.
    pub(crate) fn reason(&self) -> String {
        match self.status {
            ExitStatus {
                timed_out: true, ..
            } => format!("timed out after {} seconds", MAX_RUN_TIME.as_secs()),
            ExitStatus {
                code: Some(code), ..
            } => format!("exit status {code}"),
            ExitStatus {
                signal: Some(signal),
                ..
            } => format!("ended by signal {signal}"),
            _ => "ended without an exit status".into(),
        }
    }
}

/// Stream a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

/// Receives each line of output.
pub(crate) type LineSink<'a> = &'a (dyn Fn(OutputStream, &str) + Sync);

/// Returns the shell of a sandbox: bash if it has it.
pub(crate) async fn shell_of(host: &Host, session: &SessionId) -> Result<&'static str> {
    for shell in BASH {
        match host.open_file(session, Path::new(shell)).await {
            Ok(_) => return Ok(shell),
            Err(error) if error.code() == ErrorCode::FileNotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(FALLBACK_SHELL)
}

/// Returns the command that runs a line in a login shell, as E2B does.
pub(super) async fn command(
    host: &Host,
    session: &SessionId,
    line: &str,
    context: &Context<'_>,
) -> Result<ExecSpec> {
    let shell = shell_of(host, session).await?;
    let cwd = match context.workdir {
        Some(workdir) => workdir.to_owned(),
        None => host.user_account(session, context.user).await?.home,
    };
    let mut env = context.env.clone();
    // Keeps the usual programs reachable if a template replaces `PATH`.
    if let Some(path) = env.get_mut("PATH") {
        *path = format!("{path}:{USUAL_PATH}");
    }
    Ok(ExecSpec {
        env,
        cwd: Some(cwd),
        user: Some(context.user.to_owned()),
        ..ExecSpec::new([shell, "-l", "-c", line])
    })
}

/// Runs a line to its end; `None` if it was cancelled first.
pub(crate) async fn run(
    host: &Host,
    session: &SessionId,
    line: &str,
    context: &Context<'_>,
    sink: Option<LineSink<'_>>,
    cancelled: &CancellationToken,
) -> Result<Option<Finished>> {
    let resources = Resources {
        wall_time: Some(MAX_RUN_TIME),
        output: Some(MAX_OUTPUT),
        ..Resources::default()
    };
    let spec = ExecSpec {
        resources,
        ..command(host, session, line, context).await?
    };
    let mut running = host.exec(session, spec).await?;
    let (mut out, mut err, mut tail) = (Lines::default(), Lines::default(), Vec::new());
    let mut add = |stream: OutputStream, lines: Vec<String>| {
        for line in lines {
            if let Some(sink) = sink {
                sink(stream, &line);
            }
            if tail.len() == TAIL_LINES {
                tail.remove(0);
            }
            tail.push(line);
        }
    };
    let status = loop {
        let event = tokio::select! {
            event = running.next_event() => event,
            () = cancelled.cancelled() => return Ok(None),
        };
        match event {
            Some(ExecEvent::Stdout(bytes)) => add(OutputStream::Stdout, out.push(&bytes)),
            Some(ExecEvent::Stderr(bytes)) => add(OutputStream::Stderr, err.push(&bytes)),
            Some(ExecEvent::Exited(status)) => break status,
            None => break ExitStatus::default(),
        }
    };
    add(OutputStream::Stdout, out.finish().into_iter().collect());
    add(OutputStream::Stderr, err.finish().into_iter().collect());
    Ok(Some(Finished { status, tail }))
}
