//! Parameters and execution of `bash`.

use std::{collections::BTreeMap, num::NonZeroU64, path::Path, time::Duration};

use futures::future::BoxFuture;
use sandbar_core::{Error, Result, SessionId};
use sandbar_tree::session_tree::absolute;

use super::super::command::{MAX_ARGUMENT_BYTES, Task};
use crate::{
    ToolContext,
    outcome::Outcome,
    params::{FilePath, choice, count, tool},
    registry::SandboxTool,
};

/// Script that runs a command and saves the state of the shell. Its header documents its arguments.
const PERSISTENT: &str = include_str!("persistent.sh");

/// State file of the persistent shell, relative to `/workspace`: in the session's own `/tmp`, also
/// where commands see the host's `/tmp`.
const STATE: &str = "../tmp/.sandbar-shell";

/// Script that starts a command in the background and prints its process id.
const BACKGROUND: &str = include_str!("background.sh");

tool! {
    /// Runs a command in the sandbox with bash, or with sh where there is no bash. Files, /tmp and
    /// programs left running survive between calls; variables and the current directory do with
    /// `shell: persistent`. Output is streamed.
    "bash", Sandbox;
    pub(crate) struct Bash {
        /// The command: any shell script.
        cmd: String,
        /// Stop the command after this many milliseconds. The host's own limit for tool calls
        /// holds, too.
        timeout_ms: NonZeroU64 = count(120_000),
        /// The directory to start in. Relative paths start at /workspace, which is the default.
        cwd: Option<FilePath>,
        /// Environment variables, over those of the session.
        env: BTreeMap<String, String> = BTreeMap::new(),
        /// Leave the command running and answer at once, with its process id and the file its
        /// output goes to.
        background: bool = false,
        /// Whether this is a shell of its own, or goes on where the last persistent one ended:
        /// directory, variables, functions, aliases and options.
        shell: Shell = Shell::Fresh,
    }
}

choice! {
    /// State a shell starts with: none, or that of the last persistent shell.
    pub(crate) enum Shell {
        Fresh = "fresh",
        Persistent = "persistent",
    }
}

impl SandboxTool for Bash {
    fn validate(&self) -> Result<()> {
        if self.cmd.trim().is_empty() {
            return Err(Error::invalid("cmd", "`cmd` is empty").with_hint("give a command"));
        }
        if self.cmd.contains('\0') {
            return Err(
                Error::invalid("cmd", "`cmd` contains NUL").with_hint("remove the NUL byte")
            );
        }
        if self.cmd.len() > MAX_ARGUMENT_BYTES {
            return Err(Error::invalid(
                "cmd",
                format!(
                    "`cmd` has {} bytes, more than {MAX_ARGUMENT_BYTES}",
                    self.cmd.len()
                ),
            )
            .with_hint("write it to a file with `write_file`, and run the file"));
        }
        Ok(())
    }

    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            // The state is complete only after the previous persistent shell has ended.
            let _shell_lock = match self.shell {
                Shell::Persistent if !self.background => Some(context.lock_shell().await?),
                _ => None,
            };
            let log = self
                .background
                .then(|| format!("/tmp/sandbar-job-{}.log", SessionId::random()));
            for program in ["bash", "sh"] {
                if program == "sh" && self.shell == Shell::Persistent {
                    break;
                }
                let Some(started) = self
                    .task(context, program, log.as_deref())?
                    .start(context)
                    .await?
                else {
                    continue;
                };
                let outcome = started.finish().await?;
                return Ok(match &log {
                    Some(log) if !outcome.is_error => background(&outcome.content, log),
                    _ => outcome,
                });
            }
            Ok(match self.shell {
                Shell::Fresh => Outcome::failed("this sandbox has neither bash nor sh"),
                Shell::Persistent => {
                    Outcome::failed("this sandbox has no bash, which a persistent shell needs")
                }
            })
        })
    }
}

impl Bash {
    fn task(&self, context: &ToolContext, program: &str, log: Option<&str>) -> Result<Task> {
        let cmd = self.cmd.as_str();
        let directory = self
            .cwd
            .as_ref()
            .map(|cwd| absolute(Path::new(cwd.as_str())))
            .transpose()?;
        let directory = directory
            .as_deref()
            .and_then(Path::to_str)
            .unwrap_or_default();
        let mut argv = vec![program, "-c"];
        let variables: Vec<String> = self
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        match (self.shell, log) {
            (Shell::Fresh, None) => argv.push(cmd),
            (Shell::Fresh, Some(log)) => argv.extend([BACKGROUND, program, log, program, cmd]),
            (Shell::Persistent, log) => {
                argv.extend([
                    PERSISTENT,
                    program,
                    STATE,
                    cmd,
                    log.unwrap_or_default(),
                    directory,
                ]);
                argv.extend(variables.iter().map(String::as_str));
            }
        }
        let argv = argv.into_iter().map(str::to_owned).collect();
        let mut task = Task::new(
            context,
            argv,
            Some(Duration::from_millis(self.timeout_ms.get())),
        );
        task.spec.env.clone_from(&self.env);
        if self.shell == Shell::Fresh {
            task.spec.cwd = self.cwd.as_ref().map(|cwd| cwd.as_str().to_owned());
        }
        Ok(task)
    }
}

fn background(pid: &str, log: &str) -> Outcome {
    let pid = pid.trim();
    Outcome {
        exit_code: Some(0),
        ..Outcome::text(format!(
            "running in the background as process {pid}\n\
             output: {log} (see it with `tail -n 50 {log}`)\n\
             stop it: kill -- -{pid} || kill {pid}"
        ))
    }
}
