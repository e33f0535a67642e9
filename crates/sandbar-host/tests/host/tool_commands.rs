//! Tools that run in the sandbox: `bash` and `run_code`.

use std::{pin::Pin, time::Duration};

use sandbar_core::{ByteCount, ErrorCode, ForkRequest, LaterSnapshots, ToolTier};
use sandbar_host::HostConfig;
use serde_json::json;

use crate::{
    fixture::{HostFixture, snap},
    tools::request,
};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) fn all_tools_see_the_same_paths(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture
            .done(
                &id,
                "write_file",
                json!({"path": "a.txt", "content": "from a tool\n"}),
            )
            .await;
        assert_eq!(
            fixture
                .done(&id, "bash", json!({"cmd": "cat a.txt /workspace/a.txt"}))
                .await
                .lines()
                .count(),
            2
        );
        fixture
            .done(
                &id,
                "bash",
                json!({"cmd": "mkdir -p d && echo from a shell > d/b.txt && echo 1 > /tmp/t"}),
            )
            .await;
        assert_eq!(
            fixture
                .done(&id, "read_file", json!({"path": "d/b.txt"}))
                .await,
            "     1\tfrom a shell\n"
        );
        assert_eq!(
            fixture
                .done(&id, "read_file", json!({"path": "/tmp/t"}))
                .await,
            "     1\t1\n"
        );
        assert_eq!(
            fixture.done(&id, "grep", json!({"pattern": "from"})).await,
            "a.txt:1:from a tool\nd/b.txt:1:from a shell\n"
        );
        assert_eq!(
            fixture
                .done(&id, "glob", json!({"pattern": "**/*.txt"}))
                .await,
            "a.txt\nd/b.txt\n"
        );
        fixture
            .done(
                &id,
                "edit_file",
                json!({"path": "d/b.txt", "old_string": "shell", "new_string": "tool"}),
            )
            .await;
        let seen =
            fixture.done(&id, "bash", json!({"cmd": "cat b.txt; perl -e 'for (@ARGV) {@s = stat; printf qq(%d %o\\n), $s[4], $s[2] & 07777}' b.txt ../a.txt", "cwd": "d"})).await;
        assert_eq!(seen, "from a tool\n0 644\n0 644\n");
        assert!(
            fixture
                .done(&id, "list_dir", json!({"depth": 2}))
                .await
                .contains("d/b.txt")
        );
    })
}

pub(crate) fn shell_command_returns_output_and_exit_code(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let script = "echo out; echo err >&2; exit 3";
        let (told, answer) = fixture
            .stream(&id, request("bash", json!({"cmd": script})))
            .await;
        let answer = answer.unwrap();
        assert_eq!(
            (answer.exit_code, answer.is_error, answer.tier),
            (Some(3), true, ToolTier::Sandbox)
        );
        for (content, is_error) in [("out\n", false), ("err\n", true)] {
            assert!(
                told.iter()
                    .any(|item| item.content == content && item.is_error == is_error),
                "{told:?}"
            );
            assert!(answer.content.contains(content), "{}", answer.content);
        }
        let env =
            json!({"cmd": "echo $A-$B; pwd", "env": {"A": "x y", "B": "$HOME"}, "cwd": "/tmp"});
        assert_eq!(fixture.done(&id, "bash", env).await, "x y-$HOME\n/tmp\n");
        let late = fixture
            .tool(
                &id,
                "bash",
                json!({"cmd": "echo begun; sleep 1000", "timeout_ms": 300}),
            )
            .await;
        assert!(
            late.timed_out && late.is_error && late.exit_code == Some(124),
            "{late:?}"
        );
        assert_eq!(
            late.content,
            "begun\n[stopped after 300ms: its time was up]"
        );
        let nowhere = fixture
            .tool(&id, "bash", json!({"cmd": "true", "cwd": "/no/such"}))
            .await;
        assert!(
            nowhere.is_error && nowhere.content.contains("/no/such"),
            "{}",
            nowhere.content
        );
    })
}

pub(crate) fn progress_has_whole_characters_and_output_is_bounded(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        // The bytes of one character in several writes, and one that is no character.
        let script = r"printf 'a\360\237'; printf '\246'; printf '\200b\377'";
        let (told, answer) = fixture
            .stream(&id, request("bash", json!({"cmd": script})))
            .await;
        let told: String = told.into_iter().map(|item| item.content).collect();
        assert_eq!(
            (told.as_str(), answer.unwrap().content.as_str()),
            ("a🦀b\u{fffd}", "a🦀b\u{fffd}")
        );

        let mut noisy = request(
            "bash",
            json!({"cmd": "echo first; seq 1 400000; echo last"}),
        );
        let (told, answer) = fixture.stream(&id, noisy.clone()).await;
        let answer = answer.unwrap();
        let told: usize = told.iter().map(|item| item.content.len()).sum();
        assert!(told > 2_000_000 && answer.truncated && answer.content.len() < 1_100_000);
        assert!(
            answer.content.starts_with("first\n1\n") && answer.content.ends_with("400000\nlast\n")
        );

        noisy = request(
            "bash",
            json!({"cmd": "echo first; yes | head -c 3000000; echo done >&2"}),
        );
        noisy.resources.output = Some(ByteCount::mib(1));
        let (told, answer) = fixture.stream(&id, noisy).await;
        let answer = answer.unwrap();
        let told: usize = told.iter().map(|item| item.content.len()).sum();
        assert!(
            answer.truncated && !answer.is_error && told <= (1 << 20) + 5,
            "{told}"
        );
        assert!(answer.content.contains("done\n"));
    })
}

pub(crate) fn jobs_and_temporary_files_outlive_a_call(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let script =
            "echo begun; until test -e /tmp/go; do sleep 0.02; done; echo \"$X went\"; sleep 1000";
        let answer = fixture
            .tool(
                &id,
                "bash",
                json!({"cmd": script, "background": true, "env": {"X": "it"}}),
            )
            .await;
        assert!(
            !answer.is_error && answer.exit_code == Some(0),
            "{}",
            answer.content
        );
        let log = answer
            .content
            .split_whitespace()
            .find(|word| word.contains("/sandbar-job-"))
            .unwrap()
            .to_owned();
        let wait =
            |text: &str| format!("until grep -q '{text}' {log}; do sleep 0.02; done; cat {log}");
        fixture
            .done(&id, "bash", json!({"cmd": wait("begun")}))
            .await;
        fixture
            .done(&id, "bash", json!({"cmd": "touch /tmp/go"}))
            .await;
        assert_eq!(
            fixture
                .done(&id, "bash", json!({"cmd": wait("went")}))
                .await,
            "begun\nit went\n"
        );
        assert!(
            fixture
                .done(&id, "read_file", json!({"path": log}))
                .await
                .contains("it went")
        );
        let stop = answer
            .content
            .lines()
            .find_map(|line| line.strip_prefix("stop it: "))
            .unwrap()
            .to_owned();
        let gone = format!(
            "pid=$(echo '{stop}' | grep -o '[0-9]*$'); kill -0 $pid && {{ {stop}; }}; while kill -0 $pid 2>&-; do sleep 0.02; done"
        );
        fixture.done(&id, "bash", json!({"cmd": gone})).await;
    })
}

pub(crate) fn persistent_shell_keeps_its_state(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let shell = async |cmd: &str| {
            let answer = fixture
                .tool(&id, "bash", json!({"cmd": cmd, "shell": "persistent"}))
                .await;
            (answer.content, answer.exit_code.unwrap())
        };
        let set = "mkdir -p sub && cd sub && plain='a  b' && export SHOWN=yes && list=(1 '2 3') && greet() { echo \"hi $1\"; }";
        assert_eq!(shell(set).await, (String::new(), 0));
        let used =
            shell("pwd; echo \"$plain\"; printenv SHOWN plain; echo \"${list[1]}\"; greet you")
                .await;
        assert_eq!(used.0, "/workspace/sub\na  b\nyes\n2 3\nhi you\n");
        assert_eq!(shell("plain=changed; exit 7").await.1, 7);
        assert_eq!(
            shell("echo $plain; (exit 4)").await,
            ("changed\n".to_owned(), 4)
        );
        // A call that is killed leaves the state as it was.
        let killed = json!({"cmd": "plain=lost; cd /; sleep 1000", "shell": "persistent", "timeout_ms": 300});
        assert!(fixture.tool(&id, "bash", killed).await.timed_out);
        assert_eq!(
            shell("echo $plain; pwd").await.0,
            "changed\n/workspace/sub\n"
        );
        let elsewhere = json!({"cmd": "pwd; echo $N", "shell": "persistent", "cwd": "/tmp", "env": {"N": "new"}});
        assert_eq!(fixture.done(&id, "bash", elsewhere).await, "/tmp\nnew\n");
        assert_eq!(shell("pwd; echo $N").await.0, "/tmp\nnew\n");
        // A fresh shell knows nothing of it, and the state goes back with the session.
        assert_eq!(
            fixture
                .done(&id, "bash", json!({"cmd": "echo \"[$plain]\"; pwd"}))
                .await,
            "[]\n/workspace\n"
        );
        fixture.snapshot(&id, "before").await;
        shell("plain=after").await;
        fixture
            .host
            .rollback_session(&id, &snap("before"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(shell("echo $plain").await.0, "changed\n");
        let fork = fixture
            .host
            .fork_session(&id, ForkRequest::default())
            .await
            .unwrap()
            .remove(0)
            .id;
        let params = json!({"cmd": "echo $plain; pwd", "shell": "persistent"});
        assert_eq!(fixture.done(&fork, "bash", params).await, "changed\n/tmp\n");
        // Calls take turns.
        let many = (0..5).map(|_| shell("count=$((count + 1)); sleep 0.05"));
        futures::future::join_all(many).await;
        assert_eq!(shell("echo $count").await.0, "5\n");
    })
}

pub(crate) fn code_runs_if_its_interpreter_exists(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let long = format!("x = {:?}\nprint(len(x))\n", "y".repeat(300_000));
        for (language, code, output) in [
            (
                "python",
                "import sys\nprint('hi', sys.stdin.read())",
                "hi \n",
            ),
            ("python", long.as_str(), "300000\n"),
            (
                "javascript",
                "console.log([1, 2].map(x => x * 2).join())",
                "2,4\n",
            ),
            ("bash", "a=(x y); echo ${a[1]}; cat", "y\n"),
            ("sh", "echo $((6 * 7))", "42\n"),
            ("perl", "print join('-', 1..3), \"\\n\"", "1-2-3\n"),
        ] {
            let code = json!({"language": language, "code": code});
            assert_eq!(
                fixture.done(&id, "run_code", code).await,
                output,
                "{language}"
            );
        }
        let raised = fixture
            .tool(
                &id,
                "run_code",
                json!({"language": "python", "code": "raise SystemExit(5)"}),
            )
            .await;
        assert_eq!((raised.exit_code, raised.is_error), (Some(5), true));
        // The small base has no programs at all.
        let bare = fixture.session("bare").await;
        for (tool, params, words) in [
            (
                "run_code",
                json!({"language": "python", "code": "1"}),
                "python3, python was not found",
            ),
            ("bash", json!({"cmd": "true"}), "neither bash nor sh"),
            (
                "bash",
                json!({"cmd": "true", "shell": "persistent"}),
                "no bash",
            ),
            ("git_status", json!({}), "no git"),
        ] {
            let answer = fixture.tool(&bare, tool, params).await;
            assert!(
                answer.is_error && answer.content.contains(words),
                "{tool}: {}",
                answer.content
            );
        }
    })
}

pub(crate) fn tool_timeout_ends_a_call(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let config = HostConfig {
            tool_timeout: Duration::from_millis(400),
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        let id = fixture.machine("s").await;
        for (tool, params) in [
            ("bash", json!({"cmd": "sleep 1000"})),
            ("run_code", json!({"language": "sh", "code": "sleep 1000"})),
        ] {
            let answer = fixture.tool(&id, tool, params).await;
            assert!(
                answer.timed_out && answer.content.contains("400ms"),
                "{tool}: {answer:?}"
            );
        }
        let mut short = request("bash", json!({"cmd": "sleep 1000"}));
        short.resources.wall_time = Some(Duration::from_millis(100));
        assert!(
            fixture
                .host
                .execute_tool(&id, short)
                .await
                .unwrap()
                .content
                .contains("100ms")
        );
    })
}

pub(crate) fn invalid_calls_are_refused_by_field(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        for (tool, params, field) in [
            ("no_such_tool", json!({}), "tool_name"),
            ("read_file", json!({}), "path"),
            ("read_file", json!({"path": "a", "bogus": 1}), "bogus"),
            ("git_log", json!({"ref": "--output=x"}), "ref"),
        ] {
            let refused = fixture.refused(&id, request(tool, params)).await;
            assert_eq!(
                refused,
                (ErrorCode::InvalidArgument, Some(field.to_owned())),
                "{tool}"
            );
        }
        let mut limited = request("list_dir", json!({}));
        limited.resources.pids = Some(0);
        assert_eq!(
            fixture.refused(&id, limited).await.1.as_deref(),
            Some("resources.pids")
        );
        let missing = "missing".parse().unwrap();
        assert_eq!(
            fixture
                .refused(&missing, request("list_dir", json!({})))
                .await
                .0,
            ErrorCode::SessionNotFound
        );
        assert_eq!(fixture.host.list_tools().len(), 18);
    })
}
