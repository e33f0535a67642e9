//! Shell commands that change files, with paths that cannot leave the session's working directory.

/// Something a command does in `/workspace`. Paths are relative: a runtime without walls may show
/// the machine's own tree.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Append {
        path: &'static str,
        text: String,
    },
    Overwrite {
        path: &'static str,
        text: String,
    },
    Remove {
        path: &'static str,
    },
    MakeDirectory {
        path: &'static str,
    },
    Move {
        from: &'static str,
        to: &'static str,
    },
    ChangeMode {
        path: &'static str,
        mode: u32,
    },
    Link {
        target: &'static str,
        path: &'static str,
    },
    Show {
        path: &'static str,
    },
}

impl Action {
    /// The programs these commands need beside the shell.
    pub(crate) const PROGRAMS: [&str; 7] = ["sh", "rm", "mkdir", "mv", "chmod", "ln", "cat"];

    pub(crate) fn script(&self) -> String {
        match self {
            Self::Append { path, text } => format!("printf %s '{text}' >> {path}"),
            Self::Overwrite { path, text } => format!("printf %s '{text}' > {path}"),
            Self::Remove { path } => format!("rm -rf -- ./{path}"),
            Self::MakeDirectory { path } => format!("mkdir -p -- ./{path}"),
            Self::Move { from, to } => format!("mv -T -- ./{from} ./{to}"),
            Self::ChangeMode { path, mode } => format!("chmod {mode:o} ./{path}"),
            Self::Link { target, path } => format!("ln -s {target} ./{path}"),
            Self::Show { path } => format!("cat ./{path}"),
        }
    }
}
