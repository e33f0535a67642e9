//! `token`.

use rustix::process::Signal;
use sandbar_testing::{TestServer, tree::scratch};
use serde_json::{Value, json};

use crate::world::{Said, World, options};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Runs the program against a host with this token.
fn run_as(server: &TestServer, token: &str, arguments: &[&str]) -> Said {
    Said::from_output(
        server
            .client(arguments)
            .env("SANDBAR_TOKEN", token)
            .output()
            .unwrap(),
    )
}

#[test]
fn token_allows_its_scope_until_revoked() {
    let world = World::new();
    world.sandbox("box");
    world.sandbox("other");
    let reader = world
        .run(["token", "new", "reader", "--scope", "read"])
        .word();
    let agent = world
        .run([
            "token",
            "new",
            "agent",
            "--scope",
            "session:box",
            "--expires",
            "30d",
        ])
        .word();
    assert!(reader.starts_with("sb_") && reader != agent, "{reader}");
    let as_reader = |arguments: &[&str]| run_as(&world.server, &reader, arguments);
    let as_agent = |arguments: &[&str]| run_as(&world.server, &agent, arguments);

    assert_eq!(as_reader(&["ls", "-q"]).data(), "box\nother\n");
    as_reader(&["rm", "box"]).refused(1, &["`session:box` or `admin`", "sandbar token new"]);
    assert_eq!(as_agent(&["ls", "-q"]).data(), "box\n");
    assert_eq!(
        as_agent(&["exec", "box", "--", "sh", "-c", "echo hello"]).data(),
        "hello\n"
    );
    as_agent(&["exec", "other", "--", "true"]).refused(1, &["`session:other` or `admin`"]);
    as_agent(&["token", "ls"]).refused(1, &["`admin`"]);
    let audit = world.run(["audit", "box"]).data();
    assert!(audit.contains("token:agent@127.0.0.1"), "{audit}");

    let table = world.run(["token", "ls"]).data();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["NAME", "SCOPES", "CREATED", "EXPIRES", "USED"]);
    assert_eq!(rows[1][..2], ["agent", "session:box"]);
    assert_eq!(rows[2][..2], ["reader", "read"]);
    assert!(table.lines().nth(2).unwrap().contains("never"), "{table}");
    let list = parsed(&world.run(["token", "ls", "--json"]).data());
    assert_eq!(list[0]["scopes"], json!(["session:box"]));
    assert!(
        list[0]["expires"].is_string() && list[1]["expires"].is_null(),
        "{list}"
    );
    assert!(!list.to_string().contains(&agent));

    world
        .run(["token", "new", "agent", "--scope", "read"])
        .refused(1, &["`agent` exists already"]);
    world
        .run(["token", "new", "late", "--scope", "session:nowhere"])
        .refused(1, &["session `nowhere` of the token scope does not exist"]);
    assert_eq!(world.run(["token", "rm", "reader"]).word(), "reader");
    as_reader(&["ls"]).refused(1, &["access token"]);
    world
        .run(["token", "rm", "reader"])
        .refused(1, &["token `reader` does not exist", "sandbar token ls"]);
    let made = parsed(
        &world
            .run(["token", "new", "ci", "--scope", "admin", "--json"])
            .data(),
    );
    assert_eq!(made["token"]["name"], "ci");
    assert_eq!(
        run_as(
            &world.server,
            made["secret"].as_str().unwrap(),
            &["token", "ls", "-q"]
        )
        .data(),
        "agent\nci\n"
    );
    // A token goes with its sandbox, and may be the one that ends it.
    assert_eq!(as_agent(&["rm", "box"]).word(), "box");
    as_agent(&["ls"]).refused(1, &["access token"]);
    assert_eq!(world.run(["token", "ls", "-q"]).data(), "ci\n");
}

#[test]
fn tokens_outlive_a_host_that_is_killed() {
    let directory = scratch();
    let server = TestServer::start_in(&options(), directory.path());
    let said = |server: &TestServer, arguments: &[&str]| {
        Said::from_output(server.client(arguments).output().unwrap())
    };
    said(&server, &["new", "--id", "box"]).data();
    let agent = said(
        &server,
        &["token", "new", "agent", "--scope", "session:box"],
    )
    .word();
    let gone = said(&server, &["token", "new", "gone", "--scope", "admin"]).word();
    said(&server, &["token", "rm", "gone"]).data();
    let last = said(&server, &["token", "new", "last", "--scope", "read"]).word();
    server.stop_with(Signal::KILL);

    let server = TestServer::start_in(&options(), directory.path());
    assert_eq!(run_as(&server, &agent, &["ls", "-q"]).data(), "box\n");
    assert_eq!(run_as(&server, &last, &["ls", "-q"]).data(), "box\n");
    run_as(&server, &gone, &["ls"]).refused(1, &["access token"]);
    assert_eq!(
        said(&server, &["token", "ls", "-q"]).data(),
        "agent\nlast\n"
    );
    let kept = std::fs::read(directory.path().join("state.db")).unwrap();
    assert!(!String::from_utf8_lossy(&kept).contains(&agent[3..]));
}
