//! Command line and environment for git.

use sandbar_core::Result;

use crate::{
    ToolContext,
    outcome::Outcome,
    params::{FilePath, GitRef},
    sandbox::command::Task,
};

/// Settings of every call: plain text, and repositories that belong to another user of the sandbox
/// are fine.
const SETTINGS: [&str; 6] = [
    "--no-pager",
    "--no-optional-locks",
    "-c",
    "color.ui=never",
    "-c",
    "safe.directory=*",
];

/// Environment of git: prompts, pager and editors are disabled, since there is no terminal. `EMAIL`
/// is only used where no identity is configured.
const VARIABLES: [(&str, &str); 6] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", ":"),
    ("GIT_SEQUENCE_EDITOR", ":"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("EMAIL", "agent@sandbar.invalid"),
];

/// A git command on its way together. Values that come from callers are never read as options: refs
/// cannot begin with `-`, and paths come after `--`.
#[derive(Debug)]
pub(super) struct Invocation {
    argv: Vec<String>,
    cwd: Option<String>,
    variables: Vec<(String, String)>,
}

impl Invocation {
    pub(super) fn new(command: &str, cwd: Option<&FilePath>) -> Self {
        let mut argv = vec!["git".to_owned()];
        argv.extend(SETTINGS.map(str::to_owned));
        argv.push(command.to_owned());
        Self {
            argv,
            cwd: cwd.map(|cwd| cwd.as_str().to_owned()),
            variables: Vec::new(),
        }
    }

    /// Adds words of our own.
    pub(super) fn words(mut self, words: &[&str]) -> Self {
        self.argv.extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    /// Adds a word of our own, when `wanted`.
    pub(super) fn word_if(self, wanted: bool, word: &str) -> Self {
        if wanted { self.words(&[word]) } else { self }
    }

    /// Adds `option=value`, when there is a value.
    pub(super) fn option(mut self, option: &str, value: Option<impl std::fmt::Display>) -> Self {
        self.argv
            .extend(value.map(|value| format!("{option}={value}")));
        self
    }

    /// Adds a commit, branch or remote.
    pub(super) fn refs<'a>(mut self, refs: impl IntoIterator<Item = &'a GitRef>) -> Self {
        self.argv
            .extend(refs.into_iter().map(|text| text.as_str().to_owned()));
        self
    }

    /// Adds paths, and with them the end of everything else.
    pub(super) fn paths<'a>(mut self, paths: impl IntoIterator<Item = &'a FilePath>) -> Self {
        self.argv.push("--".to_owned());
        self.argv
            .extend(paths.into_iter().map(|path| path.as_str().to_owned()));
        self
    }

    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs it to its end.
    pub(super) async fn run(self, context: &ToolContext) -> Result<Outcome> {
        let mut task = Task::new(context, self.argv, None);
        task.spec.cwd = self.cwd;
        task.spec.env = VARIABLES
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        task.spec.env.extend(self.variables);
        match task.start(context).await? {
            Some(started) => started.finish().await,
            None => Ok(Outcome::failed(
                "this sandbox has no git\nhint: install it, or use a base that has it",
            )),
        }
    }
}
