//! Commands: start, output, input, reconnect and kill.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::future::join_all;
use serde_json::json;

use crate::{
    client::{Answer, Frame, Sandbox, frame},
    command::{shell, typed_to},
    world::World,
};

/// A pid that no process has.
const UNUSED_PID: u64 = 999_999;

fn error(answer: &Answer) -> (u16, String, String) {
    let body = answer.json();
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    (answer.status.as_u16(), text("code"), text("message"))
}

#[test]
fn command_reports_its_output_and_exit() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let output = sandbox.bash("echo hello; echo other >&2").await;
        assert_eq!(
            (output.text().as_str(), &output.stderr[..]),
            ("hello\n", &b"other\n"[..])
        );
        assert_eq!(
            output.end.unwrap(),
            json!({ "exited": true, "status": "exit status 0" })
        );
        let end = sandbox.bash("exit 3").await.end.unwrap();
        assert_eq!(
            end,
            json!({ "exitCode": 3, "exited": true, "status": "exit status 3", "error": "exit status 3" })
        );
        let killed = sandbox.bash("kill -9 $$").await.end.unwrap();
        assert_eq!(
            killed,
            json!({ "exitCode": -1, "status": "signal: killed", "error": "signal: killed" })
        );
        let broken = sandbox.bash("printf 'a\\xe2'").await;
        assert_eq!(broken.stdout, b"a\xe2");
        let missing = sandbox.bash("no-such-command").await;
        assert_eq!(missing.code(), 127);
    });
}

#[test]
fn command_has_the_requested_user_directory_and_env() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 300, "envVars": { "OF_BOX": "1", "BOTH": "box" } }))
            .await;
        let said = sandbox
            .bash("id -un; pwd; echo $HOME $USER $LOGNAME")
            .await
            .text();
        assert_eq!(said, "user\n/home/user\n/home/user user user\n");
        let said = sandbox
            .as_user("root")
            .bash("id -un; pwd; echo $HOME $USER $LOGNAME")
            .await
            .text();
        assert_eq!(said, "root\n/root\n/root root root\n");
        let mut request = shell("echo $OF_BOX $BOTH $OF_CALL; env");
        request["process"]["envs"] = json!({ "BOTH": "call", "OF_CALL": "2" });
        let said = sandbox.start(&request).await.wait().await.text();
        assert!(said.starts_with("1 call 2\n"), "{said}");
        assert!(
            !said.contains("CARGO") && !said.contains("NEXTEST"),
            "{said}"
        );
        // Variables E2B sets for every command unless the request sets them.
        let told = "echo $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID";
        assert_eq!(
            sandbox.bash(told).await.text(),
            format!("true {} base\n", sandbox.id)
        );
        let envs = sandbox.http("GET", "/envs", "").await.json();
        assert_eq!(
            (&envs["OF_BOX"], &envs["E2B_SANDBOX_ID"]),
            (&json!("1"), &json!(sandbox.id))
        );
        let mut request = shell(told);
        request["process"]["envs"] = json!({ "E2B_TEMPLATE_ID": "mine" });
        assert_eq!(
            sandbox.start(&request).await.wait().await.text(),
            format!("true {} mine\n", sandbox.id)
        );
        sandbox.bash("mkdir -p ~/below/it").await;
        for (cwd, meant) in [
            ("/tmp", "/tmp"),
            ("below", "/home/user/below"),
            ("~/below/it", "/home/user/below/it"),
            ("~", "/home/user"),
        ] {
            let mut request = shell("pwd");
            request["process"]["cwd"] = cwd.into();
            assert_eq!(
                sandbox.start(&request).await.wait().await.text(),
                format!("{meant}\n")
            );
        }
    });
}

#[test]
fn unstartable_command_is_refused_with_the_reason() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut request = shell("pwd");
        request["process"]["cwd"] = "/no/such".into();
        assert_eq!(
            sandbox.refusal(&request).await,
            json!({ "code": "invalid_argument", "message": "cwd '/no/such' does not exist" })
        );
        request["process"]["cwd"] = "~bob/x".into();
        assert_eq!(sandbox.refusal(&request).await["code"], "invalid_argument");
        request["process"]["cwd"] = "/etc/passwd".into();
        assert_eq!(sandbox.refusal(&request).await["code"], "invalid_argument");
        assert_eq!(
            sandbox.as_user("unknown-user").refusal(&shell("pwd")).await,
            json!({ "code": "unauthenticated", "message": "invalid username: 'unknown-user'" })
        );
        let refusal = sandbox
            .refusal(&json!({ "process": { "cmd": "/no/program" } }))
            .await;
        assert_eq!(refusal["code"], "invalid_argument");
        assert!(
            refusal["message"]
                .as_str()
                .unwrap()
                .contains("no such file or directory"),
            "{refusal}"
        );
        let late = sandbox
            .try_start(&shell("pwd"), &[("connect-timeout-ms", "soon")])
            .await
            .err()
            .unwrap();
        assert_eq!(late["code"], "invalid_argument");
    });
}

#[test]
fn unknown_process_is_not_found() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let text = format!("process with pid {UNUSED_PID} not found");
        let not_found = (404, "not_found".to_owned(), text.clone());
        assert_eq!(
            error(&sandbox.signal(UNUSED_PID, "SIGNAL_SIGKILL").await),
            not_found
        );
        assert_eq!(
            error(&sandbox.send(UNUSED_PID, "stdin", "x").await),
            not_found
        );
        assert_eq!(error(&sandbox.close_stdin(UNUSED_PID).await), not_found);
        let refusal = sandbox.connect(UNUSED_PID, &[]).await.err().unwrap();
        assert_eq!(refusal, json!({ "code": "not_found", "message": text }));
        let by_tag = json!({ "process": { "tag": "none" }, "signal": "SIGNAL_SIGTERM" });
        let answer = sandbox.call("process.Process/SendSignal", &by_tag).await;
        assert_eq!(error(&answer).2, "process with tag none not found");
    });
}

#[test]
fn command_reads_stdin_until_it_is_closed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut command = sandbox.start(&typed_to("cat; echo over")).await;
        for text in ["Hello, World!", "", "two\nlines"] {
            assert_eq!(sandbox.send(command.pid, "stdin", text).await.status, 200);
        }
        command.until("lines").await;
        let refused = error(&sandbox.send(command.pid, "pty", "x").await);
        assert_eq!(
            (refused.0, refused.1.as_str()),
            (400, "failed_precondition")
        );
        assert_eq!(sandbox.close_stdin(command.pid).await.status, 200);
        let pid = command.pid;
        assert_eq!(command.wait().await.text(), "over\n");
        assert_eq!(error(&sandbox.send(pid, "stdin", "x").await).1, "not_found");

        // Old SDKs omit `stdin`, which then defaults to true.
        let mut request = typed_to("cat");
        request.as_object_mut().unwrap().remove("stdin");
        let command = sandbox.start(&request).await;
        sandbox.send(command.pid, "stdin", "old").await;
        sandbox.close_stdin(command.pid).await;
        assert_eq!(command.wait().await.text(), "old");

        let none = sandbox.start(&shell("cat; sleep 1000")).await;
        let refused = error(&sandbox.send(none.pid, "stdin", "x").await);
        assert_eq!(
            refused.2,
            "error writing to stdin: stdin not enabled or closed"
        );
        assert_eq!(sandbox.close_stdin(none.pid).await.status, 200);
    });
}

#[test]
fn command_ends_when_its_output_is_closed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let late = sandbox
            .bash("(sleep 0.3; echo late) & echo first; exit 3")
            .await;
        assert_eq!((late.text().as_str(), late.code()), ("first\nlate\n", 3));
        let through = sandbox
            .bash("exec > >(sleep 0.3; cat); echo through a filter")
            .await;
        assert_eq!(through.text(), "through a filter\n");
        // A child that closed the output goes on by itself.
        let alone = sandbox.bash("sleep 985 > /dev/null 2>&1 & echo $!").await;
        assert_eq!(
            sandbox.bash(&format!("kill {}", alone.text())).await.code(),
            0
        );

        let mut left = sandbox
            .start(&typed_to("sleep 984 & echo up; exit 4"))
            .await;
        left.until("up\n").await;
        while sandbox.bash(&format!("kill -0 {}", left.pid)).await.code() == 0 {}
        assert_eq!(sandbox.commands().await.len(), 1);
        assert_eq!(sandbox.signal(left.pid, "SIGNAL_SIGKILL").await.status, 200);
        assert_eq!(left.wait().await.code(), 4);
        assert_eq!(
            (
                sandbox.bash("pgrep -f 'sleep 98[4]'").await.code(),
                sandbox.commands().await.len()
            ),
            (1, 0)
        );

        let limit = [("connect-timeout-ms", "500")];
        let mut late = sandbox
            .try_start(&shell("sleep 983 & echo up"), &limit)
            .await
            .unwrap();
        let (output, end) = late.rest().await;
        assert_eq!((output.text().as_str(), output.end), ("up\n", None));
        assert!(matches!(end, Frame::End(end) if end["error"]["code"] == "deadline_exceeded"));
    });
}

#[test]
fn streamed_input_arrives_in_order() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let command = sandbox.start(&typed_to("head -c 2000")).await;
        let mut body = frame(
            0,
            &json!({ "start": { "process": { "pid": command.pid } } }).to_string(),
        )
        .to_vec();
        let mut expected = String::new();
        for number in 0..1000 {
            let text = format!("{number:02}")[..2].to_owned();
            expected.push_str(&text);
            let data = json!({ "data": { "input": { "stdin": BASE64_STANDARD.encode(text) } } });
            body.extend(frame(0, &data.to_string()));
            body.extend(frame(0, &json!({ "keepalive": {} }).to_string()));
        }
        let (messages, end) = sandbox
            .stream_body("process.Process/StreamInput", body)
            .await
            .all()
            .await;
        assert_eq!((messages, end), (vec![json!({})], Frame::End(json!({}))));
        assert_eq!(command.wait().await.text(), expected);
        let body = frame(
            0,
            &json!({ "start": { "process": { "pid": UNUSED_PID } } }).to_string(),
        );
        let (_, end) = sandbox
            .stream_body("process.Process/StreamInput", body)
            .await
            .all()
            .await;
        assert!(matches!(end, Frame::End(end) if end["error"]["code"] == "not_found"));
    });
}

#[test]
fn command_outlives_its_connection() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut command = sandbox
            .start(&typed_to(
                "echo up; while read line; do echo \"got $line\"; done; exit 5",
            ))
            .await;
        command.until("up\n").await;
        let pid = command.pid;
        drop(command);
        let (mut one, mut other) = (
            sandbox.connect(pid, &[]).await.unwrap(),
            sandbox.connect(pid, &[]).await.unwrap(),
        );
        assert_eq!((one.pid, other.pid), (pid, pid));
        sandbox.send(pid, "stdin", "this\n").await;
        assert_eq!(one.until("this\n").await.text(), "got this\n");
        assert_eq!(other.until("this\n").await.text(), "got this\n");
        drop(one);
        sandbox.close_stdin(pid).await;
        assert_eq!(other.wait().await.code(), 5);
        // A late connection still gets the end event.
        let late = sandbox.connect(pid, &[]).await.unwrap().wait().await;
        assert_eq!((late.text().as_str(), late.code()), ("", 5));
    });
}

#[test]
fn background_command_is_listed_until_it_is_killed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut request = shell("echo up; sleep 1000 & wait");
        request["tag"] = "server".into();
        request["process"]["envs"] = json!({ "A": "b" });
        request["process"]["cwd"] = "/tmp".into();
        let mut server = sandbox.start(&request).await;
        server.until("up\n").await;
        let other = sandbox.start(&shell("sleep 1000")).await;
        let listed = sandbox.commands().await;
        assert_eq!(listed.len(), 2);
        assert_eq!(
            (listed[0]["pid"].as_u64(), listed[0]["tag"].as_str()),
            (Some(server.pid), Some("server"))
        );
        assert_eq!(
            listed[0]["config"],
            json!({ "cmd": "/bin/bash", "args": ["-l", "-c", "echo up; sleep 1000 & wait"], "envs": { "A": "b" }, "cwd": "/tmp" })
        );
        assert_eq!(listed[1]["pid"].as_u64(), Some(other.pid));

        assert_eq!(
            sandbox.signal(other.pid, "SIGNAL_SIGKILL").await.status,
            200
        );
        // No longer listed once the call has returned.
        assert_eq!(
            sandbox.bash(&format!("kill -0 {}", other.pid)).await.code(),
            1
        );
        assert_eq!(
            error(&sandbox.signal(other.pid, "SIGNAL_SIGKILL").await).1,
            "not_found"
        );
        assert_eq!(other.wait().await.end.unwrap()["error"], "signal: killed");
        let by_tag = json!({ "process": { "tag": "server" }, "signal": "SIGNAL_SIGTERM" });
        assert_eq!(
            sandbox
                .call("process.Process/SendSignal", &by_tag)
                .await
                .status,
            200
        );
        assert_eq!(
            server.wait().await.end.unwrap()["status"],
            "signal: terminated"
        );
        assert_eq!(sandbox.commands().await.len(), 0);
    });
}

#[test]
fn timed_out_command_is_killed_with_its_children() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let limit = [("connect-timeout-ms", "500")];
        let mut command = sandbox
            .try_start(&shell("sleep 987 & echo up; wait"), &limit)
            .await
            .unwrap();
        let (output, end) = command.rest().await;
        assert_eq!((output.text().as_str(), output.end), ("up\n", None));
        let Frame::End(end) = end else {
            panic!("{end:?}")
        };
        assert_eq!(end["error"]["code"], "deadline_exceeded");
        assert_eq!(sandbox.bash("pgrep -f 'sleep 98[7]'").await.code(), 1);

        // The timeout also applies without a connected client.
        let alone = sandbox
            .try_start(&shell("sleep 986"), &limit)
            .await
            .unwrap();
        let pid = alone.pid;
        drop(alone);
        assert_eq!(
            sandbox
                .connect(pid, &[])
                .await
                .unwrap()
                .wait()
                .await
                .end
                .unwrap()["status"],
            "signal: killed"
        );

        // No timeout, in both notations; the timeout of `Connect` only ends the stream.
        let mut endless = sandbox
            .try_start(
                &typed_to("read line; echo $line"),
                &[("connect-timeout-ms", "0")],
            )
            .await
            .unwrap();
        let mut connected = sandbox.connect(endless.pid, &limit).await.unwrap();
        let (_, end) = connected.rest().await;
        assert!(matches!(end, Frame::End(end) if end["error"]["code"] == "deadline_exceeded"));
        sandbox.send(endless.pid, "stdin", "still\n").await;
        assert_eq!(endless.until("still\n").await.text(), "still\n");
    });
}

#[test]
fn silent_command_sends_keepalives() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let headers = [("keepalive-ping-interval", "1")];
        let command = sandbox
            .try_start(&shell("sleep 1.5; echo done"), &headers)
            .await
            .unwrap();
        let output = command.wait().await;
        assert_eq!((output.text().as_str(), output.keepalives), ("done\n", 1));
    });
}

#[test]
fn hundred_commands_run_concurrently() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let outputs = join_all((0..100).map(|number| {
            let sandbox = sandbox.clone();
            async move {
                sandbox
                    .bash(&format!("echo {number}; exit {}", number % 7))
                    .await
            }
        }));
        for (number, output) in outputs.await.into_iter().enumerate() {
            assert_eq!(
                (output.text(), output.code()),
                (format!("{number}\n"), i64::try_from(number % 7).unwrap())
            );
        }
    });
}

#[test]
fn large_output_comes_whole_and_the_host_stays_small() {
    World::run(async |world| {
        // A gibibyte at full length; always more than the host may grow by.
        let all = usize::try_from(sandbar_testing::scaled(1 << 30, 128 << 20)).unwrap();
        let sandbox = world.sandbox().await;
        let mut command = sandbox
            .start(&shell(&format!("head -c {all} /dev/zero")))
            .await;
        let before = resident();
        let (mut bytes, mut largest, mut most) = (0, 0, 0);
        // Counted without decoding: zeros are `A`, and the last chunk ends with padding.
        let data = br#"{"event":{"data":{"stdout":""#;
        while let Some((_, message)) = command.events.next_raw().await {
            let Some(text) = message.strip_prefix(data) else {
                continue;
            };
            let text = text.strip_suffix(br#""}}}"#).unwrap();
            let piece =
                text.len() / 4 * 3 - text.iter().rev().take_while(|byte| **byte == b'=').count();
            (bytes, largest) = (bytes + piece, largest.max(piece));
            if bytes % (16 << 20) < piece {
                most = most.max(resident());
            }
        }
        assert_eq!(bytes, all);
        assert!(largest <= 32 * 1024, "{largest}");
        assert!(
            most < before + (64 << 20),
            "the host grew from {before} to {most} bytes"
        );
    });
}

/// Returns the resident memory of this process, which contains the host.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn slow_client_does_not_delay_others() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let stuck = sandbox.start(&shell("cat /dev/zero")).await;
        assert_eq!(sandbox.bash("echo other").await.text(), "other\n");
        assert_eq!(
            sandbox.signal(stuck.pid, "SIGNAL_SIGKILL").await.status,
            200
        );
        assert_eq!(sandbox.commands().await.len(), 0);
        let output = stuck.wait().await;
        assert_eq!(output.end.unwrap()["status"], "signal: killed");
    });
}

#[test]
fn process_ids_are_not_used_again_after_a_host_restart() {
    let known = std::sync::Mutex::new(None);
    World::run_and_start_again(
        async |world| {
            let sandbox = world.sandbox().await;
            let command = sandbox.start(&shell("sleep 1000")).await;
            *known.lock().unwrap() = Some((sandbox, command.pid));
        },
        async |world| {
            let (sandbox, before) = known.lock().unwrap().take().unwrap();
            let sandbox = Sandbox {
                address: world.address,
                ..sandbox
            };
            let other = sandbox.start(&shell("sleep 1000")).await;
            assert!(other.pid > before, "{} after {before}", other.pid);
            assert_eq!(
                sandbox.connect(before, &[]).await.err().unwrap()["code"],
                "not_found"
            );
        },
    );
}

#[test]
fn command_continues_after_resume() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut command = sandbox
            .start(&typed_to("echo up; read line; echo \"got $line\""))
            .await;
        command.until("up\n").await;
        let session = sandbox.id.parse().unwrap();
        world.host.pause_session(&session).await.unwrap();
        assert_eq!(command.events.next().await, Frame::Torn);
        world.host.resume_session(&session).await.unwrap();
        let mut again = sandbox.connect(command.pid, &[]).await.unwrap();
        sandbox.send(command.pid, "stdin", "it\n").await;
        assert_eq!(again.until("it\n").await.text(), "got it\n");
        assert_eq!(again.wait().await.code(), 0);
    });
}

#[test]
fn unknown_fields_are_ignored() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut request = shell("echo fine");
        request["fromTheFuture"] = json!({ "a": 1 });
        assert_eq!(sandbox.start(&request).await.wait().await.text(), "fine\n");
    });
}
