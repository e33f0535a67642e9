//! Commands on a terminal.

use serde_json::{Value, json};

use crate::{client::Answer, client::Sandbox, world::World};

/// Request of `pty.create` in the SDKs.
fn terminal(columns: u16, rows: u16) -> Value {
    json!({
        "process": {
            "cmd": "/bin/bash",
            "args": ["-i", "-l"],
            "envs": { "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8" },
        },
        "pty": { "size": { "cols": columns, "rows": rows } },
    })
}

async fn resize(sandbox: &Sandbox, pid: u64, columns: u16, rows: u16) -> Answer {
    let request =
        json!({ "process": { "pid": pid }, "pty": { "size": { "cols": columns, "rows": rows } } });
    sandbox.call("process.Process/Update", &request).await
}

#[test]
fn terminal_takes_input_and_is_resized() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut shell = sandbox.start(&terminal(80, 24)).await;
        sandbox
            .send(shell.pid, "pty", "stty size; echo $TERM; tty | cut -c1-5\n")
            .await;
        let said = shell.until("/dev/").await;
        let said = String::from_utf8_lossy(&said.pty).into_owned();
        assert!(
            said.contains("24 80") && said.contains("xterm-256color"),
            "{said}"
        );
        assert_eq!(resize(&sandbox, shell.pid, 100, 30).await.status, 200);
        sandbox.send(shell.pid, "pty", "stty size\n").await;
        shell.until("30 100").await;
        // The terminal outlives the connection that created it.
        let pid = shell.pid;
        drop(shell);
        let mut again = sandbox.connect(pid, &[]).await.unwrap();
        sandbox.send(pid, "pty", "echo $((40 + 2))\n").await;
        again.until("42\r\n").await;
        sandbox.send(pid, "pty", "exit 6\n").await;
        assert_eq!(again.wait().await.code(), 6);
    });
}

#[test]
fn unsupported_terminal_operation_is_refused() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let shell = sandbox.start(&terminal(80, 24)).await;
        let refused = |answer: Answer| {
            (
                answer.status.as_u16(),
                answer.json()["code"].as_str().unwrap().to_owned(),
            )
        };
        let precondition = (400, "failed_precondition".to_owned());
        assert_eq!(
            refused(sandbox.send(shell.pid, "stdin", "x").await),
            precondition
        );
        assert_eq!(refused(sandbox.close_stdin(shell.pid).await), precondition);
        assert_eq!(
            sandbox.signal(shell.pid, "SIGNAL_SIGKILL").await.status,
            200
        );
        assert_eq!(shell.wait().await.end.unwrap()["status"], "signal: killed");
        let plain = sandbox.start(&crate::command::shell("sleep 1000")).await;
        assert_eq!(
            refused(resize(&sandbox, plain.pid, 1, 1).await),
            (500, "internal".to_owned())
        );
    });
}

#[test]
fn terminal_output_arrives_in_small_chunks() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let request = json!({
            "process": { "cmd": "/bin/sh", "args": ["-c", "head -c 1000000 /dev/zero | tr '\\0' x"] },
            "pty": { "size": { "cols": 80, "rows": 24 } },
        });
        let output = sandbox.start(&request).await.wait().await;
        assert_eq!((output.pty.len(), output.stdout.len()), (1_000_000, 0));
        assert!(output.largest <= 16 * 1024, "{}", output.largest);
    });
}
