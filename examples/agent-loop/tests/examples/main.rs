//! Every example, run against a real host, prints the same log.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use sandbar_client::Client;
use sandbar_core::{RuntimeKind, SessionFilter};
use sandbar_host::{Host, HostConfig};
use sandbar_server::{AccessToken, ServerConfig, serve};
use sandbar_testing::{Backend, StorageFixture, tree::scratch};
use tokio_util::sync::CancellationToken;

const BEGINNING: &str = "\
model: first the names, and a check that says when the work is done
call write_file: names.txt
  | made `names.txt`: 10 bytes
call write_file: check.sh
  | made `check.sh`: 130 bytes
";

const MISTAKE: &str = "\
model: the quickest way is to change the names where they are
call bash: sed -i 's/.*/Hello, &!/' names.txt && cp names.txt greetings.txt
call bash: sh check.sh
  | names.txt was overwritten
  failed with exit code 1
model: that went wrong: back to the end of the last turn
";

const SUCCESS: &str = "\
model: this time the names stay as they are
call bash: sed 's/.*/Hello, &!/' names.txt > greetings.txt
call bash: sh check.sh
  | all good
";

const END: &str = "done: greetings.txt greets everyone\n";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn agent_loop() -> Command {
    Command::new(env!("CARGO_BIN_EXE_agent-loop"))
}

/// Returns stdout of a program that must have succeeded.
#[track_caller]
fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs a program against a real host, and checks its output and that it left no session.
fn against_a_host(program: impl FnOnce(&str) -> Command) {
    let storage = StorageFixture::new(Backend::BtrfsImage);
    let config = HostConfig::on_storage(storage.data_dir(), storage.close(), RuntimeKind::Native);
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        let host = Host::start(config).await.unwrap();
        let token = AccessToken::random().unwrap();
        let (revealed, stop) = (token.reveal().to_owned(), CancellationToken::new());
        let config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), Some(token));
        let server = serve(host.clone(), config, stop.clone()).await.unwrap();
        let url = format!("http://{}", server.address());
        let mut command = program(&url);
        command
            .env("SANDBAR_URL", &url)
            .env("SANDBAR_TOKEN", &revealed);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        let turn = |number: u32| format!("turn over: turn-{number:04}\n");
        let expected = [
            BEGINNING,
            &turn(1),
            MISTAKE,
            "rolled back\n",
            SUCCESS,
            &turn(2),
            END,
        ]
        .concat();
        assert_eq!(stdout(&output), expected);
        let client = Client::connect(&url, Some(&revealed)).await.unwrap();
        assert!(
            client
                .all_sessions(&SessionFilter::default())
                .await
                .unwrap()
                .is_empty()
        );
        drop(client);
        stop.cancel();
        server.finished().await.unwrap();
        host.shutdown().await.unwrap();
    });
}

#[test]
fn the_loop_in_rust_works_in_a_session_on_a_host() {
    against_a_host(|url| {
        let mut command = agent_loop();
        command.args(["--url", url]);
        command
    });
}

#[test]
fn the_loop_in_python_works_in_a_session_on_a_host() {
    against_a_host(|_| {
        let mut command = Command::new("python3");
        command.arg(examples().join("agent-loop.py"));
        command
    });
}

#[test]
fn the_loop_with_curl_works_in_a_session_on_a_host() {
    against_a_host(|_| {
        let mut command = Command::new("sh");
        command.arg(examples().join("agent-loop.sh"));
        command
    });
}

#[test]
fn rust_loop_works_on_a_directory_without_snapshots() {
    let directory = scratch();
    let output = agent_loop()
        .arg("--directory")
        .arg(directory.path())
        .output()
        .unwrap();
    let by_hand =
        "not rolled back: `rollback` is not supported\nmodel: then I put things right by hand\n";
    let again = BEGINNING
        .split_once('\n')
        .unwrap()
        .1
        .replace("made `", "replaced `");
    let expected = [
        BEGINNING,
        "turn over\n",
        MISTAKE,
        by_hand,
        &again,
        SUCCESS,
        "turn over\n",
        END,
    ]
    .concat();
    assert_eq!(stdout(&output), expected);
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("isolation: native: "));
    // The files are in the directory of the caller.
    assert_eq!(
        fs::read_to_string(directory.path().join("greetings.txt")).unwrap(),
        "Hello, Ada!\nHello, Grace!\n"
    );
    assert_eq!(
        fs::read_to_string(directory.path().join("names.txt")).unwrap(),
        "Ada\nGrace\n"
    );
}

#[test]
fn missing_host_is_reported_in_one_line() {
    let output = agent_loop()
        .args(["--url", "http://127.0.0.1:1"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said,
        "error: no answer from a Sandbar host at http://127.0.0.1:1\n"
    );
}
