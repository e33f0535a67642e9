//! Tool calls in general.

use futures::future::join_all;
use sandbar_core::ErrorCode;
use sandbar_environment::ToolTier;
use serde_json::json;
use tokio::sync::oneshot;

use crate::{
    cancellation::{HOLD_A_LOCK, TAKE_THE_LOCK},
    world::{World, call, request, request_as},
};

pub(crate) async fn progress_arrives_while_the_tool_runs(world: &World) {
    let (heard, hearing) = oneshot::channel();
    let mut heard = Some(heard);
    let mut said = Vec::new();
    let mut on_progress = |progress: sandbar_environment::ToolProgress| {
        if let Some(heard) = heard.take() {
            heard.send(()).unwrap();
        }
        said.push((progress.content, progress.is_error));
    };
    let command = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second >&2";
    let calling = world
        .environment
        .execute_tool(request("bash", json!({"cmd": command})), &mut on_progress);
    // The command continues only after its first output has arrived.
    let answering = async {
        hearing.await.unwrap();
        world.write("go", "").await;
    };
    let (answer, ()) = futures::future::join(calling, answering).await;
    let answer = answer.unwrap();
    assert_eq!(
        (answer.content.as_str(), answer.exit_code),
        ("first\nsecond\n", Some(0))
    );
    assert_eq!(
        said,
        [("first\n".to_owned(), false), ("second\n".to_owned(), true)]
    );
}

pub(crate) async fn a_repeated_call_is_done_once(world: &World) {
    let once = || {
        request_as(
            "once",
            "bash",
            json!({"cmd": "sleep 0.1; echo done >> log; echo $RANDOM$RANDOM"}),
        )
    };
    let answers = join_all((0..4).map(|_| call(&*world.environment, once()))).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap()).collect();
    let later = call(&*world.environment, once()).await.unwrap();
    for answer in &answers {
        assert_eq!(answer, &later);
    }
    assert_eq!(world.read("log").await.as_deref(), Some("done\n"));
}

pub(crate) async fn a_call_that_was_cancelled_is_done_again(world: &World) {
    let first = request_as("again", "bash", json!({"cmd": HOLD_A_LOCK}));
    tokio::select! {
        answer = call(&*world.environment, first) => panic!("it ended by itself: {answer:?}"),
        () = world.appears("held") => {}
    }
    // Until the cancellation has arrived, a repeated call would join the cancelled one.
    assert_eq!(world.bash(TAKE_THE_LOCK).await, "free\n");
    let again = request_as("again", "bash", json!({"cmd": "echo done again"}));
    assert_eq!(
        call(&*world.environment, again).await.unwrap().content,
        "done again\n"
    );
}

pub(crate) async fn invalid_call_names_the_parameter(world: &World) {
    for (tool, params, field) in [
        ("nonsense", json!({}), "tool_name"),
        ("bash", json!({}), "cmd"),
        ("read_file", json!({"path": "x", "limit": 0}), "limit"),
        ("read_file", json!({"path": "x", "colour": "red"}), "colour"),
        ("git_show", json!({"ref": "--output=x"}), "ref"),
    ] {
        let error = world.tool(tool, params).await.unwrap_err();
        let cause = error.cause().unwrap();
        assert_eq!(
            (cause.code(), cause.field()),
            (ErrorCode::InvalidArgument, Some(field)),
            "{tool}"
        );
    }
}

pub(crate) async fn failed_tool_is_a_result(world: &World) {
    let missing = world
        .tool("read_file", json!({"path": "missing"}))
        .await
        .unwrap();
    assert!(
        missing.is_error && missing.content.contains("does not exist"),
        "{}",
        missing.content
    );
    assert_eq!((missing.tier, missing.exit_code), (ToolTier::Host, None));
    let failed = world
        .tool("bash", json!({"cmd": "echo sorry >&2; exit 3"}))
        .await
        .unwrap();
    assert_eq!(
        (failed.content.as_str(), failed.exit_code, failed.is_error),
        ("sorry\n", Some(3), true)
    );
    assert_eq!(failed.tier, ToolTier::Sandbox);
}

pub(crate) async fn command_is_stopped_at_its_timeout(world: &World) {
    let answer = world
        .tool("bash", json!({"cmd": HOLD_A_LOCK, "timeout_ms": 500}))
        .await
        .unwrap();
    assert!(answer.timed_out && answer.is_error);
    assert_eq!(answer.exit_code, Some(124));
    assert_eq!(world.bash(TAKE_THE_LOCK).await, "free\n");
}

pub(crate) async fn commands_have_the_requested_environment(world: &World) {
    assert_eq!(world.bash("echo $GREETING").await, "good morning\n");
    let over = json!({"cmd": "echo $GREETING", "env": {"GREETING": "good night"}});
    assert_eq!(world.done("bash", over).await, "good night\n");
    // No variable of the test's own environment.
    assert_eq!(world.bash("env | grep -c ^CARGO || true").await, "0\n");
}
