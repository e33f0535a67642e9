//! `run_code`.

use std::{num::NonZeroU64, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use sandbar_core::{Error, Result};

use super::command::{MAX_ARGUMENT_BYTES, Task};
use crate::{
    ToolContext,
    outcome::Outcome,
    params::{FilePath, choice, count, tool},
    registry::SandboxTool,
};

tool! {
    /// Runs a piece of code in the sandbox with the interpreter of its language, where the sandbox
    /// has it. Every call is a program of its own.
    "run_code", Sandbox;
    pub(crate) struct RunCode {
        /// The language of the code.
        language: Language,
        /// The whole program.
        code: String,
        /// Stop it after this many milliseconds. The host's own limit for tool calls holds, too.
        timeout_ms: NonZeroU64 = count(120_000),
        /// The directory to start in. Relative paths start at /workspace, which is the default.
        cwd: Option<FilePath>,
    }
}

choice! {
    /// A language with an interpreter.
    pub(crate) enum Language {
        Python = "python" | "python3" | "py",
        Javascript = "javascript" | "js" | "node" | "nodejs",
        Bash = "bash",
        Sh = "sh" | "shell",
        Ruby = "ruby" | "rb",
        Perl = "perl" | "pl",
    }
}

impl Language {
    /// Interpreters that could run it, the best first.
    const fn interpreters(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Python => &[&["python3", "-"], &["python", "-"]],
            Self::Javascript => &[&["node", "-"], &["bun", "run", "-"], &["deno", "run", "-"]],
            Self::Bash => &[&["bash", "-c"]],
            Self::Sh => &[&["sh", "-c"]],
            Self::Ruby => &[&["ruby", "-"]],
            Self::Perl => &[&["perl", "-"]],
        }
    }

    /// A shell reads its script while it runs it, so that programs in it would read the script as
    /// their input: it gets the script as an argument. The others read all of it first.
    const fn is_shell(self) -> bool {
        matches!(self, Self::Bash | Self::Sh)
    }
}

impl SandboxTool for RunCode {
    fn validate(&self) -> Result<()> {
        if self.language.is_shell()
            && (self.code.len() > MAX_ARGUMENT_BYTES || self.code.contains('\0'))
        {
            return Err(Error::invalid(
                "code",
                format!("`code` holds NUL, or more than {MAX_ARGUMENT_BYTES} bytes"),
            )
            .with_hint("write it to a file with `write_file`, and run that with `bash`"));
        }
        Ok(())
    }

    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            let interpreters = self.language.interpreters();
            for interpreter in interpreters {
                if let Some(started) = self.task(context, interpreter).start(context).await? {
                    return started.finish().await;
                }
            }
            let names: Vec<&str> = interpreters
                .iter()
                .filter_map(|argv| argv.first().copied())
                .collect();
            Ok(Outcome::failed(format!(
                "this sandbox has no interpreter for this language: {} was not found",
                names.join(", ")
            )))
        })
    }
}

impl RunCode {
    fn task(&self, context: &ToolContext, interpreter: &[&str]) -> Task {
        let mut argv: Vec<String> = interpreter.iter().map(|&word| word.to_owned()).collect();
        let time = Some(Duration::from_millis(self.timeout_ms.get()));
        let mut task = if self.language.is_shell() {
            argv.push(self.code.clone());
            Task::new(context, argv, time)
        } else {
            Task::new(context, argv, time).with_input(Bytes::copy_from_slice(self.code.as_bytes()))
        };
        task.spec.cwd = self.cwd.as_ref().map(|cwd| cwd.as_str().to_owned());
        task
    }
}
