//! Registry of all tools, in the order they are listed.

use std::sync::LazyLock;

use futures::future::BoxFuture;
use sandbar_core::{Error, Result, ToolInfo, ToolParams, ToolTier};

use crate::{
    ToolContext,
    context::HostSide,
    host::{EditFile, Glob, Grep, ListDir, ReadFile, WriteFile},
    outcome::Outcome,
    params::Tool,
    sandbox::{
        Bash, GitAdd, GitClone, GitCommit, GitDiff, GitFetch, GitLog, GitPull, GitPush, GitShow,
        GitStatus, RunCode,
    },
};

/// Tool that works on files of a session: in this process if it reads or writes one file, in a
/// worker process if it walks trees and matches patterns.
pub(crate) trait HostTool: Tool {
    /// Checks constraints that the types cannot express.
    fn validate(&self) -> Result<()> {
        Ok(())
    }

    /// Executes the tool. Blocks.
    fn run(self, side: &HostSide) -> Result<Outcome>;
}

/// Tool that runs commands in the sandbox.
pub(crate) trait SandboxTool: Tool {
    /// Checks what the types of the parameters cannot.
    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>>;
}

macro_rules! registry {
    (host: $($host:ident),+; walk: $($walk:ident),+; sandbox: $($sandbox:ident),+;) => {
        /// One of the tools, with its parameters.
        #[derive(Debug)]
        pub(crate) enum AnyTool {
            $($host($host),)+
            $($walk($walk),)+
            $($sandbox($sandbox),)+
        }

        impl AnyTool {
            pub(crate) fn read(name: &str, params: ToolParams) -> Result<Self> {
                match name {
                    $($host::NAME => {
                        let tool = <$host as Tool>::read(params)?;
                        HostTool::validate(&tool)?;
                        Ok(Self::$host(tool))
                    })+
                    $($walk::NAME => {
                        let tool = <$walk as Tool>::read(params)?;
                        HostTool::validate(&tool)?;
                        Ok(Self::$walk(tool))
                    })+
                    $($sandbox::NAME => {
                        let tool = <$sandbox as Tool>::read(params)?;
                        SandboxTool::validate(&tool)?;
                        Ok(Self::$sandbox(tool))
                    })+
                    other => Err(unknown(other)),
                }
            }

            pub(crate) fn tier(&self) -> ToolTier {
                match self {
                    $(Self::$host(_) => $host::TIER,)+
                    $(Self::$walk(_) => $walk::TIER,)+
                    $(Self::$sandbox(_) => $sandbox::TIER,)+
                }
            }

            pub(crate) async fn run(self, context: &ToolContext) -> Result<Outcome> {
                match self {
                    $(Self::$host(tool) => run_here(tool, context.host_side()).await,)+
                    $(Self::$walk(tool) => run_here(tool, context.host_side()).await,)+
                    $(Self::$sandbox(tool) => tool.run(context).await,)+
                }
            }

            /// Whether a tool walks trees.
            pub(crate) fn walks(name: &str) -> bool {
                [$($walk::NAME),+].contains(&name)
            }

            /// Runs a tool that walks trees on this thread.
            pub(crate) fn run_walk(self, side: &HostSide) -> Result<Outcome> {
                match self {
                    $(Self::$walk(tool) => tool.run(side),)+
                    _ => Err(Error::internal("tool does not walk trees")),
                }
            }
        }

        static TOOLS: LazyLock<Vec<ToolInfo>> = LazyLock::new(|| vec![$(info::<$host>(),)+ $(info::<$walk>(),)+ $(info::<$sandbox>(),)+]);
    };
}

registry! {
    host: ReadFile, WriteFile, EditFile;
    walk: Grep, Glob, ListDir;
    sandbox:
        Bash, GitStatus, GitDiff, GitLog, GitShow, GitAdd, GitCommit, GitPush, GitClone, GitFetch, GitPull, RunCode;
}

/// Descriptions of all tools.
pub fn list_tools() -> &'static [ToolInfo] {
    &TOOLS
}

fn info<T: Tool>() -> ToolInfo {
    ToolInfo {
        name: T::NAME.to_owned(),
        description: T::about(),
        tier: T::TIER,
        schema: T::schema(),
    }
}

fn unknown(name: &str) -> Error {
    let known: Vec<&str> = list_tools().iter().map(|tool| tool.name.as_str()).collect();
    Error::invalid(
        "tool_name",
        format!("tool `{}` does not exist", name.escape_debug()),
    )
    .with_hint(format!("use one of {}", known.join(", ")))
}

/// Runs a tool on a blocking thread. The tool itself has to check for cancellation.
async fn run_here(tool: impl HostTool, side: HostSide) -> Result<Outcome> {
    tokio::task::spawn_blocking(move || {
        side.check()?;
        tool.run(&side)
    })
    .await
    .unwrap_or_else(|error| Err(Error::internal("tool panicked").with_source(error)))
}

#[cfg(test)]
mod tests {
    use sandbar_core::ErrorCode;
    use serde_json::{Value, json};

    use super::*;
    use crate::PreparedCall;

    fn call(tool: &str, params: Value) -> Result<PreparedCall> {
        let Value::Object(params) = params else {
            panic!("not an object")
        };
        PreparedCall::new(tool, params)
    }

    #[test]
    fn every_tool_of_the_contract_is_listed_with_its_schema() {
        let names: Vec<&str> = list_tools().iter().map(|tool| tool.name.as_str()).collect();
        let contract = "read_file write_file edit_file grep glob list_dir bash git_status git_diff git_log git_show git_add \
                        git_commit git_push git_clone git_fetch git_pull run_code";
        assert_eq!(names.join(" "), contract);
        for tool in list_tools() {
            assert!(tool.description.len() > 20, "{}", tool.name);
            assert_eq!(tool.schema["type"], "object");
            assert_eq!(tool.schema["additionalProperties"], false);
            let properties = tool.schema["properties"].as_object().unwrap();
            for (name, schema) in properties {
                assert!(
                    schema["description"].as_str().unwrap().len() > 5,
                    "{} of {}",
                    name,
                    tool.name
                );
                assert!(schema["type"].is_string(), "{} of {}", name, tool.name);
            }
            for required in tool.schema["required"].as_array().unwrap() {
                assert!(properties.contains_key(required.as_str().unwrap()));
            }
        }
    }

    #[test]
    fn the_schema_says_what_the_reader_takes() {
        let read_file = list_tools()
            .iter()
            .find(|tool| tool.name == "read_file")
            .unwrap();
        assert_eq!(read_file.schema["required"], json!(["path"]));
        assert_eq!(read_file.schema["properties"]["limit"]["default"], 2000);
        for tool in list_tools() {
            // Defaults are values that the parser accepts.
            let mut params = json!({});
            for (name, schema) in tool.schema["properties"].as_object().unwrap() {
                if let Some(default) = schema.get("default") {
                    params[name] = default.clone();
                }
            }
            for required in tool.schema["required"].as_array().unwrap() {
                let name = required.as_str().unwrap();
                params[name] = match tool.schema["properties"][name]["type"].as_str().unwrap() {
                    "string" => tool.schema["properties"][name]
                        .get("enum")
                        .map_or(json!("x"), |words| words[0].clone()),
                    "array" => json!(["x"]),
                    other => panic!("{other}"),
                };
            }
            if tool.name == "edit_file" {
                params["new_string"] = json!("y");
            }
            call(&tool.name, params)
                .unwrap_or_else(|error| panic!("{}: {}", tool.name, error.chain()));
        }
    }

    #[test]
    fn a_parameter_that_is_wrong_missing_or_unknown_is_named() {
        for (tool, params, field) in [
            ("nonsense", json!({}), "tool_name"),
            ("read_file", json!({}), "path"),
            ("read_file", json!({"path": null}), "path"),
            ("read_file", json!({"path": ""}), "path"),
            ("read_file", json!({"path": "a\0b"}), "path"),
            ("read_file", json!({"path": 7}), "path"),
            ("read_file", json!({"path": "a", "offset": -1}), "offset"),
            ("read_file", json!({"path": "a", "limit": 0}), "limit"),
            ("read_file", json!({"path": "a", "lines": 3}), "lines"),
            ("write_file", json!({"path": "a"}), "content"),
            (
                "edit_file",
                json!({"path": "a", "old_string": "", "new_string": "b"}),
                "old_string",
            ),
            (
                "edit_file",
                json!({"path": "a", "old_string": "b", "new_string": "b"}),
                "new_string",
            ),
            ("grep", json!({"pattern": "("}), "pattern"),
            (
                "grep",
                json!({"pattern": "a\nb", "literal": true}),
                "pattern",
            ),
            ("grep", json!({"pattern": "a", "include": "[z-"}), "include"),
            ("glob", json!({"pattern": "{a"}), "pattern"),
            ("glob", json!({"pattern": "/a/*", "path": "b"}), "path"),
            ("bash", json!({"cmd": ""}), "cmd"),
            ("bash", json!({"cmd": "ls", "timeout_ms": 0}), "timeout_ms"),
            ("bash", json!({"cmd": "ls", "shell": "fish"}), "shell"),
            ("bash", json!({"cmd": "ls", "env": {"A=B": "c"}}), "env"),
            ("bash", json!({"cmd": "x".repeat(200_000)}), "cmd"),
            ("git_show", json!({"ref": "--output=/etc/passwd"}), "ref"),
            ("git_diff", json!({"from": "-x"}), "from"),
            ("git_log", json!({"ref": "-1"}), "ref"),
            ("git_push", json!({"remote": "--receive-pack=x"}), "remote"),
            ("git_push", json!({"ref": "--force"}), "ref"),
            ("git_fetch", json!({"remote": "--upload-pack=x"}), "remote"),
            ("git_pull", json!({"ref": "-q"}), "ref"),
            ("git_clone", json!({"url": "--upload-pack=x"}), "url"),
            ("git_clone", json!({"url": "x", "branch": "-b"}), "branch"),
            ("git_add", json!({}), "paths"),
            ("git_commit", json!({"message": " "}), "message"),
            (
                "git_commit",
                json!({"message": "m", "author": "nobody"}),
                "author",
            ),
            (
                "run_code",
                json!({"language": "cobol", "code": "x"}),
                "language",
            ),
        ] {
            let error = call(tool, params.clone()).unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some(field)),
                "{tool} {params}: {}",
                error.chain()
            );
        }
    }
}
