//! Tools that show, stage and commit changes.

use futures::future::BoxFuture;
use sandbar_core::{Error, Result};

use super::invocation::Invocation;
use crate::{
    ToolContext,
    outcome::Outcome,
    params::{FilePath, GitRef, tool},
    registry::SandboxTool,
};

tool! {
    /// Shows the state of a git repository's working tree.
    "git_status", Sandbox;
    pub(crate) struct GitStatus {
        /// The repository, or a directory in it. Relative paths start at /workspace, which is the
        /// default.
        cwd: Option<FilePath>,
    }
}

impl SandboxTool for GitStatus {
    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            Invocation::new("status", self.cwd.as_ref())
                .run(context)
                .await
        })
    }
}

tool! {
    /// Shows differences: between the working tree and what is staged, between commits, or what is
    /// staged.
    "git_diff", Sandbox;
    pub(crate) struct GitDiff {
        /// The repository, or a directory in it. Relative paths start at /workspace, which is the
        /// default.
        cwd: Option<FilePath>,
        /// Compare what is staged instead of the working tree.
        staged: bool = false,
        /// The commit to compare with; a range such as main..topic works, too.
        from: Option<GitRef>,
        /// The commit to compare to, instead of the working tree.
        to: Option<GitRef>,
        /// Only differences in these files or directories, relative to `cwd`.
        paths: Vec<FilePath> = Vec::new(),
        /// Only names and counts.
        stat: bool = false,
    }
}

impl SandboxTool for GitDiff {
    fn validate(&self) -> Result<()> {
        if self.to.is_some() && self.from.is_none() {
            return Err(
                Error::invalid("to", "`to` is given without `from`").with_hint("give `from`, too")
            );
        }
        Ok(())
    }

    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            Invocation::new("diff", self.cwd.as_ref())
                .word_if(self.staged, "--cached")
                .word_if(self.stat, "--stat")
                .words(&["--end-of-options"])
                .refs(self.from.iter().chain(&self.to))
                .paths(&self.paths)
                .run(context)
                .await
        })
    }
}

tool! {
    /// Stages files for the next commit.
    "git_add", Sandbox;
    pub(crate) struct GitAdd {
        /// Files or directories, relative to `cwd`; . is everything below it.
        paths: Vec<FilePath>,
        /// The repository, or a directory in it. Relative paths start at /workspace, which is the
        /// default.
        cwd: Option<FilePath>,
    }
}

impl SandboxTool for GitAdd {
    fn validate(&self) -> Result<()> {
        if self.paths.is_empty() {
            return Err(Error::invalid("paths", "`paths` is empty")
                .with_hint("name files, or `.` for everything"));
        }
        Ok(())
    }

    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            Invocation::new("add", self.cwd.as_ref())
                .paths(&self.paths)
                .run(context)
                .await
        })
    }
}

tool! {
    /// Commits what is staged.
    "git_commit", Sandbox;
    pub(crate) struct GitCommit {
        /// The commit message.
        message: String,
        /// The repository, or a directory in it. Relative paths start at /workspace, which is the
        /// default.
        cwd: Option<FilePath>,
        /// Stage every change of files git knows first.
        all: bool = false,
        /// Replace the last commit.
        amend: bool = false,
        /// The author of the commit: Name <address>. Without it, the identity configured in the
        /// sandbox.
        author: Option<String>,
    }
}

impl SandboxTool for GitCommit {
    fn validate(&self) -> Result<()> {
        if self.message.trim().is_empty() || self.message.contains('\0') {
            return Err(
                Error::invalid("message", "`message` is empty, or holds NUL")
                    .with_hint("say what was changed"),
            );
        }
        self.identity().map(|_| ())
    }

    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            let mut invocation = Invocation::new("commit", self.cwd.as_ref())
                .word_if(self.all, "--all")
                .word_if(self.amend, "--amend")
                .option("--message", Some(&self.message));
            if let Some((name, address)) = self.identity()? {
                for who in ["AUTHOR", "COMMITTER"] {
                    invocation = invocation
                        .variable(&format!("GIT_{who}_NAME"), name)
                        .variable(&format!("GIT_{who}_EMAIL"), address);
                }
            }
            invocation.run(context).await
        })
    }
}

impl GitCommit {
    /// Name and address of the author, when one is given.
    fn identity(&self) -> Result<Option<(&str, &str)>> {
        let Some(author) = &self.author else {
            return Ok(None);
        };
        let parts = author
            .strip_suffix('>')
            .and_then(|author| author.split_once('<'));
        let usable = |text: &str| {
            !text.is_empty() && !text.contains(['<', '>']) && !text.contains(char::is_control)
        };
        match parts.map(|(name, address)| (name.trim(), address.trim())) {
            Some((name, address)) if usable(name) && usable(address) => Ok(Some((name, address))),
            _ => Err(
                Error::invalid("author", format!("`author` is `{}`", author.escape_debug()))
                    .with_hint("write it as `Name <address>`"),
            ),
        }
    }
}
