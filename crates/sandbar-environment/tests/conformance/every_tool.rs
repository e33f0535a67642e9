//! Every tool once, with the same results everywhere.

use sandbar_environment::{ToolResponse, ToolTier, list_tools};
use serde_json::{Value, json};

use crate::world::World;

const AUTHOR: &str = "Ada <ada@example.com>";

/// Tools with their parameters and a part of their results.
fn calls() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        (
            "bash",
            json!({"cmd": "git init -q -b main repo && git init -q --bare -b main origin && echo ready"}),
            "ready\n",
        ),
        (
            "write_file",
            json!({"path": "repo/story.txt", "content": "one\ntwo\n"}),
            "made `repo/story.txt`: 8 bytes",
        ),
        (
            "read_file",
            json!({"path": "/workspace/repo/story.txt", "offset": 1}),
            "2\ttwo",
        ),
        (
            "edit_file",
            json!({"path": "repo/story.txt", "old_string": "two", "new_string": "three"}),
            "`repo/story.txt`",
        ),
        (
            "grep",
            json!({"pattern": "th.ee", "path": "repo"}),
            "story.txt:2:three",
        ),
        ("glob", json!({"pattern": "**/*.txt"}), "repo/story.txt"),
        ("list_dir", json!({"path": "repo"}), "story.txt"),
        ("git_status", json!({"cwd": "repo"}), "story.txt"),
        (
            "git_add",
            json!({"cwd": "repo", "paths": ["story.txt"]}),
            "",
        ),
        ("git_diff", json!({"cwd": "repo", "staged": true}), "+three"),
        (
            "git_commit",
            json!({"cwd": "repo", "message": "begin", "author": AUTHOR}),
            "begin",
        ),
        ("git_log", json!({"cwd": "repo"}), "begin"),
        (
            "git_show",
            json!({"cwd": "repo", "ref": "HEAD:story.txt"}),
            "one\nthree\n",
        ),
        (
            "git_push",
            json!({"cwd": "repo", "remote": "/workspace/origin", "ref": "main"}),
            "main",
        ),
        (
            "git_clone",
            json!({"url": "/workspace/origin", "path": "copy"}),
            "copy",
        ),
        ("git_fetch", json!({"cwd": "copy"}), ""),
        ("git_pull", json!({"cwd": "copy"}), "up to date"),
        (
            "run_code",
            json!({"language": "python", "code": "print(6 * 7)"}),
            "42\n",
        ),
    ]
}

pub(crate) async fn every_tool_returns_the_same_form(world: &World) {
    let calls = calls();
    for tool in list_tools() {
        assert!(
            calls.iter().any(|(name, ..)| *name == tool.name),
            "{} is not tried",
            tool.name
        );
    }
    for (name, params, words) in calls {
        let answer = world.tool(name, params).await.unwrap();
        assert!(
            answer.content.to_lowercase().contains(words),
            "{name}: {:?}",
            answer.content
        );
        let tier = list_tools()
            .iter()
            .find(|tool| tool.name == name)
            .unwrap()
            .tier;
        let expected = ToolResponse {
            content: answer.content.clone(),
            duration: answer.duration,
            content_blocks: Vec::new(),
            exit_code: (tier == ToolTier::Sandbox).then_some(0),
            snapshot_id: None,
            tier,
            is_error: false,
            timed_out: false,
            oom_killed: false,
            truncated: false,
        };
        assert_eq!(answer, expected, "{name}");
    }
}
