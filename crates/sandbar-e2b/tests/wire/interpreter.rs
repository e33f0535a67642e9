//! The code interpreter, as `run_code` of the SDKs uses it.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::{
    client::{Answer, Exchange, Sandbox, exchange, send},
    world::World,
};

/// Lines of a streaming response.
struct Lines {
    exchange: Exchange,
    arrived: BytesMut,
}

impl Lines {
    /// Returns the next line; `None` at the end or after an abort.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.arrived.iter().position(|byte| *byte == b'\n') {
                let line = self.arrived.split_to(end + 1);
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.exchange.response.body_mut().frame().await?.ok()?;
            self.arrived
                .extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }

    /// Returns whether the response is aborted without another line, by which a client knows that
    /// the sandbox is gone.
    async fn breaks_off(&mut self) -> bool {
        matches!(
            self.exchange.response.body_mut().frame().await,
            Some(Err(_))
        )
    }
}

/// Result of a run, assembled as the SDKs do.
#[derive(Debug)]
struct Execution {
    lines: Vec<Value>,
}

impl Execution {
    fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let lines: Vec<Value> = answer
            .text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            lines.last().unwrap()["type"],
            "end_of_execution",
            "{lines:?}"
        );
        Self { lines }
    }

    fn of_type(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["type"] == kind)
    }

    /// Returns the text of the main result.
    fn text(&self) -> &str {
        let main = self
            .of_type("result")
            .find(|result| result["is_main_result"] == true);
        main.and_then(|result| result["text"].as_str())
            .unwrap_or_else(|| panic!("{:?}", self.lines))
    }

    fn stdout(&self) -> String {
        self.of_type("stdout")
            .filter_map(|line| line["text"].as_str())
            .collect()
    }

    fn error(&self) -> &Value {
        self.of_type("error")
            .next()
            .unwrap_or_else(|| panic!("{:?}", self.lines))
    }
}

impl Sandbox {
    fn to_interpreter(&self, method: &str, path: &str, body: &Value) -> http::Request<Full<Bytes>> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut request = self
            .request(method, path)
            .header("content-type", "application/json");
        request
            .headers_mut()
            .unwrap()
            .insert("e2b-sandbox-port", "49999".parse().unwrap());
        request.body(Full::from(body)).unwrap()
    }

    async fn interpreter(&self, method: &str, path: &str, body: Value) -> Answer {
        send(self.address, self.to_interpreter(method, path, &body)).await
    }

    async fn execute(&self, body: Value) -> Execution {
        Execution::of(&self.interpreter("POST", "/execute", body).await)
    }

    async fn run_code(&self, code: &str) -> Execution {
        self.execute(
            json!({ "code": code, "context_id": null, "language": null, "env_vars": null }),
        )
        .await
    }

    /// Starts a run whose lines are read one by one.
    async fn start_code(&self, code: &str) -> Lines {
        let request = self.to_interpreter("POST", "/execute", &json!({ "code": code }));
        Lines {
            exchange: exchange(self.address, request).await,
            arrived: BytesMut::new(),
        }
    }

    async fn context(&self, wanted: Value) -> Value {
        let answer = self.interpreter("POST", "/contexts", wanted).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }
}

#[test]
fn run_code_keeps_variables_between_calls() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let first = sandbox.run_code("x = 41\nprint('set')\nx").await;
        assert_eq!((first.stdout().as_str(), first.text()), ("set\n", "41"));
        assert_eq!(sandbox.run_code("x += 1\nx").await.text(), "42");
        let counts = sandbox.run_code("x").await;
        assert_eq!(
            counts.of_type("number_of_executions").next().unwrap()["execution_count"],
            3
        );
    });
}

#[test]
fn run_code_reports_errors_with_traceback() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let run = sandbox.run_code("print('before')\n1 / 0").await;
        let error = run.error();
        assert_eq!(
            (error["name"].as_str(), error["value"].as_str()),
            (Some("ZeroDivisionError"), Some("division by zero"))
        );
        assert!(
            error["traceback"]
                .as_str()
                .unwrap()
                .contains("----> 2 1 / 0"),
            "{error}"
        );
        assert_eq!(run.stdout(), "before\n");
    });
}

#[test]
fn output_arrives_in_order_while_code_runs() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut lines = sandbox.start_code("import os, sys\nprint(1, flush=True)\nos.mkfifo('/tmp/go')\nopen('/tmp/go').read()\nprint(2, file=sys.stderr)\ndisplay(3)\n4").await;
        assert_eq!(lines.next().await.unwrap()["type"], "number_of_executions");
        let first = lines.next().await.unwrap();
        assert_eq!(
            (first["type"].as_str(), first["text"].as_str()),
            (Some("stdout"), Some("1\n"))
        );
        assert!(first["timestamp"].is_u64());
        // The code continues only now.
        sandbox
            .as_user("root")
            .bash("until [ -p /tmp/go ]; do :; done; echo > /tmp/go")
            .await;
        let mut kinds = Vec::new();
        while let Some(line) = lines.next().await {
            kinds.push(line["type"].as_str().unwrap().to_owned());
        }
        assert_eq!(kinds, ["stderr", "result", "result", "end_of_execution"]);
    });
}

#[test]
fn contexts_are_created_listed_restarted_and_removed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let context = sandbox.context(json!({ "cwd": "/tmp" })).await;
        let id = context["id"].as_str().unwrap();
        assert_eq!(
            (context["language"].as_str(), context["cwd"].as_str()),
            (Some("python"), Some("/tmp"))
        );
        let run = |code: &'static str| sandbox.execute(json!({ "code": code, "context_id": id }));
        assert_eq!(run("import os; y = 1; os.getcwd()").await.text(), "/tmp");
        assert_eq!(sandbox.run_code("y").await.error()["name"], "NameError");
        let listed = sandbox
            .interpreter("GET", "/contexts", Value::Null)
            .await
            .json();
        let languages: BTreeSet<_> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|context| context["language"].as_str().unwrap())
            .collect();
        assert!(languages.contains("python"), "{listed}");
        assert!(listed.as_array().unwrap().contains(&context), "{listed}");
        assert_eq!(
            sandbox
                .interpreter("POST", &format!("/contexts/{id}/restart"), Value::Null)
                .await
                .status,
            200
        );
        assert_eq!(run("y").await.error()["name"], "NameError");
        assert_eq!(
            sandbox
                .interpreter("DELETE", &format!("/contexts/{id}"), Value::Null)
                .await
                .status,
            200
        );
        let gone = sandbox
            .interpreter("POST", "/execute", json!({ "code": "1", "context_id": id }))
            .await;
        assert_eq!(
            (gone.status.as_u16(), gone.text()),
            (404, &*format!("Context {id} not found"))
        );
    });
}

#[test]
fn variables_of_sandbox_and_run_reach_the_code() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(
                json!({ "templateID": "base", "timeout": 300, "envVars": { "WIDE": "all" } }),
            )
            .await;
        let read = "import os\n[os.getenv('WIDE'), os.getenv('OWN')]";
        let run = sandbox
            .execute(json!({ "code": read, "env_vars": { "OWN": "1", "WIDE": "other" } }))
            .await;
        assert_eq!(run.text(), "['other', '1']");
        assert_eq!(sandbox.run_code(read).await.text(), "['all', None]");
        let told = sandbox
            .run_code(
                "[os.getenv('E2B_' + name) for name in ['SANDBOX', 'SANDBOX_ID', 'TEMPLATE_ID']]",
            )
            .await;
        assert_eq!(told.text(), format!("['true', '{}', 'base']", sandbox.id));
    });
}

#[test]
fn javascript_typescript_and_bash_run_if_installed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let shell =
            |code: &'static str| sandbox.execute(json!({ "code": code, "language": "bash" }));
        assert_eq!(shell("x=5; cd /tmp; echo made").await.stdout(), "made\n");
        assert_eq!(shell("echo $x $PWD").await.stdout(), "5 /tmp\n");
        if shell("command -v node").await.stdout().is_empty() {
            let answer = sandbox
                .interpreter("POST", "/execute", json!({ "code": "1", "language": "js" }))
                .await;
            assert_eq!(answer.status, 501, "{}", answer.text());
            return;
        }
        let script =
            |code: &'static str| sandbox.execute(json!({ "code": code, "language": "js" }));
        assert_eq!(
            script("const x = 1\nconsole.log('hello')\nx").await.text(),
            "1"
        );
        assert_eq!(
            script("const x = await Promise.resolve(2); x").await.text(),
            "2"
        );
        assert_eq!(script("null.x").await.error()["name"], "TypeError");
        let typed = |code: &'static str| sandbox.execute(json!({ "code": code, "language": "ts" }));
        assert_eq!(
            typed("const message: string = 'hello'; console.log(message)")
                .await
                .stdout(),
            "hello\n"
        );
        assert_eq!(
            typed("interface A { a: number }\n(message as string).length")
                .await
                .text(),
            "5"
        );
    });
}

#[test]
fn unsupported_language_is_named() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let answer = sandbox
            .interpreter(
                "POST",
                "/execute",
                json!({ "code": "1", "language": "deno" }),
            )
            .await;
        assert_eq!(answer.status, 501);
        assert!(
            answer.text().contains("is not offered"),
            "{}",
            answer.text()
        );
    });
}

#[test]
fn r_and_java_run_if_installed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        for (language, program, code, text) in [
            ("r", "R", ["x <- 20", "x + 22"], "[1] 42"),
            ("java", "javac", ["int x = 20;", "x + 22"], "42"),
        ] {
            let run = |code: &str| json!({ "code": code, "language": language });
            if sandbox
                .bash(&format!("command -v {program} || true"))
                .await
                .text()
                .is_empty()
            {
                let answer = sandbox.interpreter("POST", "/execute", run("1")).await;
                assert_eq!(answer.status, 501, "{}", answer.text());
                assert!(
                    answer.text().contains("which this sandbox does not have"),
                    "{}",
                    answer.text()
                );
                continue;
            }
            assert_eq!(
                sandbox.execute(run(code[0])).await.of_type("error").count(),
                0
            );
            assert_eq!(sandbox.execute(run(code[1])).await.text(), text);
        }
    });
}

#[test]
fn concurrent_first_requests_start_one_interpreter() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let runs = (0..20).map(|_| sandbox.run_code("import os\nos.getpid()"));
        let runs = futures::future::join_all(runs).await;
        let kernels: BTreeSet<_> = runs.iter().map(Execution::text).collect();
        assert_eq!(kernels.len(), 1, "{kernels:?}");
        let session = sandbox.id.parse().unwrap();
        assert_eq!(world.host.list_processes(&session).await.unwrap().len(), 1);
    });
}

#[test]
fn killed_interpreter_is_started_by_the_next_request() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.run_code("x = 1").await;
        let session = sandbox.id.parse().unwrap();
        let process = world.host.list_processes(&session).await.unwrap().remove(0);
        world
            .host
            .kill_process(&session, &process.id, 9)
            .await
            .unwrap();
        world
            .host
            .wait_process(&session, &process.id, sandbar_core::WaitFor::Exited)
            .await
            .unwrap();
        assert_eq!(sandbox.run_code("x").await.error()["name"], "NameError");
    });
}

#[test]
fn interpreter_killed_inside_is_restarted() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.run_code("x = 1").await;
        let root = sandbox.as_user("root");
        for name in ["uvicorn main:app", "jupyter-server"] {
            // By the names of E2B's processes, as its own tests do. The brackets keep the pattern
            // from matching the shell itself.
            let found = root
                .bash(&format!(
                    "grep -al '[{}]{}' /proc/[0-9]*/cmdline",
                    &name[..1],
                    &name[1..]
                ))
                .await
                .text();
            assert_eq!(found.lines().count(), 1, "{found}");
            // The kernel is a child of the server.
            let mut lines = sandbox
                .start_code("import os\nos.kill(os.getppid(), 9)")
                .await;
            while lines.next().await.is_some() {}
            // From inside the sandbox only: a request through the host would start it.
            root.bash(
                "until (exec 3<> /dev/tcp/127.0.0.1/49999) 2> /dev/null; do sleep 0.02; done",
            )
            .await;
        }
        assert_eq!(sandbox.run_code("x").await.error()["name"], "NameError");
    });
}

#[test]
fn interpreter_killed_while_starting_is_restarted() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "code-interpreter-v1", "timeout": 300 }))
            .await;
        // As soon as the process exists, before the host has seen it listen.
        let kill = "until found=$(grep -al '[u]vicorn main:app' /proc/[0-9]*/cmdline 2> /dev/null); do :; done
            kill -9 $(echo \"$found\" | cut -d / -f 3)";
        sandbox.as_user("root").bash(kill).await;
        // From inside the sandbox only: a request through the host would start it.
        sandbox
            .bash("until (exec 3<> /dev/tcp/127.0.0.1/49999) 2> /dev/null; do sleep 0.02; done")
            .await;
        assert_eq!(sandbox.run_code("40 + 2").await.text(), "42");
    });
}

#[test]
fn code_of_a_disconnected_client_is_interrupted() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.run_code("kept = 1").await;
        let mut lines = sandbox
            .start_code("import time\nprint('on', flush=True)\ntime.sleep(3600)")
            .await;
        lines.next().await.unwrap();
        assert_eq!(lines.next().await.unwrap()["text"], "on\n");
        drop(lines);
        assert_eq!(sandbox.run_code("kept").await.text(), "1");
    });
}

#[test]
fn large_output_arrives_completely() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let run = sandbox
            .run_code("for _ in range(16 * 1024):\n    print('x' * 1023)")
            .await;
        assert_eq!(run.stdout().len(), 16 << 20);
    });
}

#[test]
fn code_requires_the_access_token_contexts_port_access() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let traffic_token = sandbox.traffic_token.clone();
        let stranger = Sandbox {
            access_token: None,
            ..sandbox.clone()
        };
        assert_eq!(
            stranger
                .interpreter("POST", "/execute", json!({ "code": "1" }))
                .await
                .status,
            401
        );
        let wrong = Sandbox {
            access_token: Some("wrong".into()),
            ..sandbox.clone()
        };
        assert_eq!(
            wrong
                .interpreter("POST", "/execute", json!({ "code": "1" }))
                .await
                .status,
            401
        );
        let mut request = stranger.to_interpreter("GET", "/contexts", &Value::Null);
        if let Some(token) = traffic_token {
            request
                .headers_mut()
                .insert("e2b-traffic-access-token", token.parse().unwrap());
        }
        assert_eq!(send(sandbox.address, request).await.status, 200);
    });
}

#[test]
fn interpreter_of_a_killed_sandbox_is_not_found() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.run_code("1").await;
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                .await
                .status,
            204
        );
        let gone = sandbox
            .interpreter("POST", "/execute", json!({ "code": "1" }))
            .await;
        assert_eq!(
            (gone.status.as_u16(), gone.json()["message"].as_str()),
            (502, Some("The sandbox was not found"))
        );
    });
}

#[test]
fn response_of_running_code_is_aborted_on_kill() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut lines = sandbox
            .start_code("import time\nprint('on', flush=True)\ntime.sleep(3600)")
            .await;
        lines.next().await.unwrap();
        lines.next().await.unwrap();
        world
            .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
            .await;
        assert!(lines.breaks_off().await);
    });
}

#[test]
fn interpreter_leaves_no_file_and_runs_in_the_home() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let root = sandbox.as_user("root");
        let list = || root.bash("find /tmp /root /home /workspace /var/tmp | sort");
        let before = list().await.stdout;
        let run = sandbox.run_code("import os\nos.getcwd()").await;
        let has_home = root.bash("test -d /home/user && echo yes").await.stdout;
        assert_eq!(
            run.text(),
            if has_home.is_empty() {
                "/root"
            } else {
                "/home/user"
            }
        );
        assert_eq!(list().await.stdout, before);
    });
}

#[test]
fn code_wakes_an_auto_resume_sandbox_with_its_state() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "timeout": 300, "autoPause": true, "autoResume": { "enabled": true } });
        let sandbox = world.sandbox_with(body).await;
        sandbox.run_code("left = 7").await;
        let paused = world
            .control(
                "POST",
                &format!("/sandboxes/{}/pause", sandbox.id),
                Some(&json!({})),
            )
            .await;
        assert_eq!(paused.status, 204, "{}", paused.text());
        assert_eq!(sandbox.run_code("left").await.text(), "7");
    });
}

#[test]
fn interpreter_is_reachable_by_host_name() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let name = format!("49999-{}.{}", sandbox.id, world.host.ingress_domain());
        let mut request = sandbox.to_interpreter("POST", "/execute", &json!({ "code": "6 * 7" }));
        let headers = request.headers_mut();
        headers.remove("e2b-sandbox-id");
        headers.remove("e2b-sandbox-port");
        headers.insert("host", name.parse().unwrap());
        assert_eq!(
            Execution::of(&send(sandbox.address, request).await).text(),
            "42"
        );
    });
}

#[test]
fn interpreter_is_not_listed_as_a_command() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.run_code("1").await;
        let listed = sandbox.call("process.Process/List", &json!({})).await;
        assert_eq!(listed.status, 200, "{}", listed.text());
        assert_eq!(
            listed.json()["processes"].as_array().map_or(0, Vec::len),
            0,
            "{}",
            listed.text()
        );
    });
}

#[test]
fn code_sandbox_has_the_interpreter_before_the_first_request() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "code-interpreter-v1", "timeout": 300 }))
            .await;
        let ask = "until (exec 3<> /dev/tcp/127.0.0.1/49999) 2> /dev/null; do sleep 0.02; done; \
                   exec 3<> /dev/tcp/127.0.0.1/49999; printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3; head -n 1 <&3";
        let said = sandbox.bash(ask).await.text();
        assert!(said.contains(" 200 "), "{said}");
    });
}

#[test]
fn code_interpreter_v1_is_a_template() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "code-interpreter-v1", "timeout": 300 }))
            .await;
        assert_eq!(sandbox.run_code("'there'").await.text(), "there");
    });
}
