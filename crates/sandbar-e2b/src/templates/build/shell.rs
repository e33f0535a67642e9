//! Lines for a shell of the sandbox.

use std::{collections::BTreeMap, path::Path, time::Duration};

use sandbar_core::{ByteCount, ErrorCode, ExecEvent, ExecSpec, ExitStatus, Resources, Result, SessionId};
use sandbar_host::Host;
use tokio_util::sync::CancellationToken;

use super::log::{BuildLog, Level, Lines};

/// The longest a step may take.
const LONGEST_STEP: Duration = Duration::from_hours(1);
const SHELLS: [&str; 2] = ["/bin/bash", "/usr/bin/bash"];
/// Where programs are.
pub(super) const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Every image that has a shell has this one.
const LAST_SHELL: &str = "/bin/sh";
/// What is kept of the output for who asks why.
const TAIL: usize = 10;

/// In whose name, where and with what a line is run.
#[derive(Clone, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) user: &'a str,
    pub(crate) workdir: Option<&'a str>,
    pub(crate) env: &'a BTreeMap<String, String>,
}

/// How a line ended.
#[derive(Debug)]
pub(crate) struct Ended {
    status: ExitStatus,
    /// Its last lines.
    pub(crate) tail: Vec<String>,
}

impl Ended {
    pub(crate) fn is_success(&self) -> bool {
        self.status.code == Some(0) && !self.status.timed_out
    }

    /// As a shell would say it.
    pub(crate) fn reason(&self) -> String {
        match self.status {
            ExitStatus { timed_out: true, .. } => "its time is up".into(),
            ExitStatus { code: Some(code), .. } => format!("exit status {code}"),
            ExitStatus { signal: Some(signal), .. } => format!("ended by signal {signal}"),
            _ => "it ended for no reason anybody knows".into(),
        }
    }
}

/// Where output goes.
pub(crate) struct Said<'a> {
    pub(crate) log: &'a BuildLog,
    /// What lines begin with.
    pub(crate) prefix: &'a str,
    pub(crate) step: &'a str,
}

/// The shell of a session, which its lines are run by as E2B runs them: as a login.
pub(crate) async fn shell_of(host: &Host, session: &SessionId) -> Result<&'static str> {
    for shell in SHELLS {
        match host.open_file(session, Path::new(shell)).await {
            Ok(_) => return Ok(shell),
            Err(error) if error.code() == ErrorCode::FileNotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(LAST_SHELL)
}

/// What a line is run as, and in which directory.
pub(crate) async fn command(host: &Host, session: &SessionId, line: &str, context: &Context<'_>) -> Result<ExecSpec> {
    let shell = shell_of(host, session).await?;
    let home = match context.workdir {
        Some(workdir) => workdir.to_owned(),
        None => host.user_account(session, context.user).await?.home,
    };
    let mut env = context.env.clone();
    // A template that sets it to something of its own still finds the usual programs.
    if let Some(path) = env.get_mut("PATH") {
        *path = format!("{path}:{USUAL_PATH}");
    }
    Ok(ExecSpec {
        env,
        cwd: Some(home),
        user: Some(context.user.to_owned()),
        ..ExecSpec::new([shell, "-l", "-c", line])
    })
}

/// Runs a line to its end, or until nobody wants it any more.
pub(crate) async fn run(
    host: &Host,
    session: &SessionId,
    line: &str,
    context: &Context<'_>,
    said: Option<&Said<'_>>,
    cancelled: &CancellationToken,
) -> Result<Option<Ended>> {
    let resources =
        Resources { wall_time: Some(LONGEST_STEP), output: Some(ByteCount::gib(4)), ..Resources::default() };
    let spec = ExecSpec { resources, ..command(host, session, line, context).await? };
    let mut running = host.exec(session, spec).await?;
    let (mut out, mut err, mut tail) = (Lines::default(), Lines::default(), Vec::new());
    let mut note = |stream: &str, level: Level, lines: Vec<String>| {
        for line in lines {
            if let Some(said) = said {
                said.log.say(level, Some(said.step), format!("[{}] [{stream}]: {line}", said.prefix));
            }
            if tail.len() == TAIL {
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
            Some(ExecEvent::Stdout(bytes)) => note("stdout", Level::Info, out.push(&bytes)),
            Some(ExecEvent::Stderr(bytes)) => note("stderr", Level::Warn, err.push(&bytes)),
            Some(ExecEvent::Exited(status)) => break status,
            None => break ExitStatus::default(),
        }
    };
    note("stdout", Level::Info, out.rest().into_iter().collect());
    note("stderr", Level::Warn, err.rest().into_iter().collect());
    Ok(Some(Ended { status, tail }))
}
