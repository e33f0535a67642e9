//! Annotations of tools, for clients that ask the user for confirmation.

use rmcp::model::ToolAnnotations;

/// Title and effects of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hints {
    pub(crate) title: &'static str,
    effect: Effect,
    /// A second call with the same arguments has no further effect.
    idempotent: bool,
    /// The tool can reach the network, as far as the policy of the sandbox allows.
    open_world: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Reads,
    Adds,
    MayDestroy,
}

impl Hints {
    pub(crate) const fn reads(title: &'static str) -> Self {
        Self {
            title,
            effect: Effect::Reads,
            idempotent: true,
            open_world: false,
        }
    }

    pub(crate) const fn adds(title: &'static str) -> Self {
        Self {
            title,
            effect: Effect::Adds,
            idempotent: false,
            open_world: false,
        }
    }

    pub(crate) const fn may_destroy(title: &'static str) -> Self {
        Self {
            title,
            effect: Effect::MayDestroy,
            idempotent: false,
            open_world: false,
        }
    }

    pub(crate) const fn repeatable(self) -> Self {
        Self {
            idempotent: true,
            ..self
        }
    }

    pub(crate) const fn reaching_out(self) -> Self {
        Self {
            open_world: true,
            ..self
        }
    }

    pub(crate) fn to_annotations(self) -> ToolAnnotations {
        ToolAnnotations::with_title(self.title)
            .read_only(self.effect == Effect::Reads)
            .destructive(self.effect == Effect::MayDestroy)
            .idempotent(self.idempotent)
            .open_world(self.open_world)
    }

    pub(crate) fn is_read_only(self) -> bool {
        self.effect == Effect::Reads
    }

    /// Returns the hints of a tool of the host. `None` for an unknown tool, for which clients
    /// assume the worst.
    pub(crate) fn of_host_tool(name: &str) -> Option<Self> {
        Some(match name {
            "read_file" => Self::reads("Read a file"),
            "write_file" => Self::may_destroy("Write a file").repeatable(),
            "edit_file" => Self::may_destroy("Edit a file"),
            "grep" => Self::reads("Search in files"),
            "glob" => Self::reads("Find files"),
            "list_dir" => Self::reads("List a directory"),
            "bash" => Self::may_destroy("Run a shell command").reaching_out(),
            "run_code" => Self::may_destroy("Run a program").reaching_out(),
            "git_status" => Self::reads("Git status"),
            "git_diff" => Self::reads("Git diff"),
            "git_log" => Self::reads("Git log"),
            "git_show" => Self::reads("Git show"),
            "git_add" => Self::adds("Git add").repeatable(),
            "git_commit" => Self::adds("Git commit"),
            "git_push" => Self::may_destroy("Git push").reaching_out(),
            "git_clone" => Self::adds("Git clone").reaching_out(),
            "git_fetch" => Self::adds("Git fetch").repeatable().reaching_out(),
            "git_pull" => Self::may_destroy("Git pull").reaching_out(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_tool_has_hints_and_only_readers_are_read_only() {
        for tool in sandbar_tools::list_tools() {
            let hints =
                Hints::of_host_tool(&tool.name).unwrap_or_else(|| panic!("{} has none", tool.name));
            let reads = [
                "read_file",
                "grep",
                "glob",
                "list_dir",
                "git_status",
                "git_diff",
                "git_log",
                "git_show",
            ];
            let read_only = hints.to_annotations().read_only_hint;
            assert_eq!(
                read_only,
                Some(reads.contains(&tool.name.as_str())),
                "{}",
                tool.name
            );
        }
        assert_eq!(Hints::of_host_tool("format_disk"), None);
    }
}
