//! Tests of `grep`: found and left-out matches.

use std::time::Duration;

use sandbar_core::ErrorCode;
use serde_json::{Value, json};

use super::testing::Workbench;
use crate::PreparedCall;

fn found(bench: &Workbench, params: Value) -> String {
    let answer = bench.run("grep", params);
    assert!(!answer.is_error, "{}", answer.content);
    answer.content
}

fn files(bench: &Workbench, params: Value) -> Vec<String> {
    let mut files: Vec<String> = found(bench, params)
        .lines()
        .filter(|line| !line.starts_with('['))
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    files.dedup();
    files
}

#[test]
fn matches_come_sorted_by_path_with_line_numbers() {
    let bench = Workbench::new();
    bench.write("b.txt", "needle\nhay\nneedle again\n");
    bench.write("a/deep.txt", "hay\nNeedle\nneedle");
    bench.write("a.txt", "needle\r\n");
    assert_eq!(
        found(&bench, json!({"pattern": "needle"})),
        "a/deep.txt:3:needle\na.txt:1:needle\nb.txt:1:needle\nb.txt:3:needle again\n"
    );
    assert_eq!(
        found(&bench, json!({"pattern": "^needle$", "path": "b.txt"})),
        "b.txt:1:needle\n"
    );
    assert_eq!(
        found(
            &bench,
            json!({"pattern": "NEEDLE", "ignore_case": true, "path": "a"})
        )
        .lines()
        .count(),
        2
    );
    assert_eq!(
        found(&bench, json!({"pattern": "needle", "path": "/workspace/a"})),
        "/workspace/a/deep.txt:3:needle\n"
    );
    assert_eq!(found(&bench, json!({"pattern": "nothing"})), "[no matches]");
}

#[test]
fn a_literal_pattern_is_not_a_regular_expression() {
    let bench = Workbench::new();
    bench.write("f", "a.c\nabc\n");
    assert_eq!(found(&bench, json!({"pattern": "a.c"})).lines().count(), 2);
    assert_eq!(
        found(&bench, json!({"pattern": "a.c", "literal": true})),
        "f:1:a.c\n"
    );
    assert_eq!(
        found(&bench, json!({"pattern": "(", "literal": true})),
        "[no matches]"
    );
}

#[test]
fn context_is_marked_and_groups_are_parted() {
    let bench = Workbench::new();
    bench.write("f", "1\n2\nx\n4\n5\n6\n7\nx\n9\n");
    bench.write("g", "x\n");
    assert_eq!(
        found(&bench, json!({"pattern": "x", "context_lines": 1})),
        "f-2-2\nf:3:x\nf-4-4\n--\nf-7-7\nf:8:x\nf-9-9\n--\ng:1:x\n"
    );
}

#[test]
fn at_most_max_results_come_and_more_is_said() {
    let bench = Workbench::new();
    bench.write("a", &"x\n".repeat(60));
    bench.write("b", &"x\n".repeat(60));
    let answer = bench.run("grep", json!({"pattern": "x"}));
    assert!(answer.truncated && answer.content.contains("more matches than these 100"));
    assert_eq!(
        answer
            .content
            .lines()
            .filter(|line| line.ends_with(":x"))
            .count(),
        100
    );
    let exact = bench.run("grep", json!({"pattern": "x", "max_results": 120}));
    assert!(!exact.truncated && exact.content.lines().count() == 120);
    let last = bench.run(
        "grep",
        json!({"pattern": "x", "max_results": 60, "path": "a", "context_lines": 2}),
    );
    assert!(!last.truncated);
}

#[test]
fn matches_beyond_the_answer_size_are_cut_and_reported() {
    let bench = Workbench::new();
    bench.write("f", &format!("{}\n", "x".repeat(999)).repeat(3000));
    let answer = bench.run("grep", json!({"pattern": "x", "max_results": 1_000_000}));
    assert!(answer.truncated && answer.content.len() <= crate::CONTENT_LIMIT + 200);
    assert!(
        answer.content.lines().count() > 1000,
        "{}",
        answer.content.lines().count()
    );
    assert!(answer.content.contains("more matches than these 10"));
}

#[test]
fn ignore_files_count_as_for_ripgrep() {
    let bench = Workbench::new();
    for file in [
        "kept",
        "dropped.log",
        "sub/dropped.log",
        "sub/special.log",
        "build/out",
        "sub/build/out",
        ".env",
    ] {
        bench.write(file, "x");
    }
    bench.write(".gitignore", "*.log\n/build/\n");
    bench.write("sub/.gitignore", "!special.log\n");
    // Without a repository, git's ignore files are files like others.
    assert_eq!(files(&bench, json!({"pattern": "x"})).len(), 6);
    std::fs::create_dir_all(bench.path(".git/info")).unwrap();
    bench.write(".git/config", "x");
    assert_eq!(
        files(&bench, json!({"pattern": "x"})),
        ["kept", "sub/build/out", "sub/special.log"]
    );
    // Rules of directories above count, and a directory that is named is searched even when it is
    // ignored.
    assert_eq!(
        files(&bench, json!({"pattern": "x", "path": "sub"})),
        ["sub/build/out", "sub/special.log"]
    );
    assert_eq!(
        files(&bench, json!({"pattern": "x", "path": "build"})),
        ["build/out"]
    );
    assert_eq!(
        files(&bench, json!({"pattern": "x", "path": "dropped.log"})),
        ["dropped.log"]
    );
    bench.write(".git/info/exclude", "/kept\n");
    assert_eq!(
        files(&bench, json!({"pattern": "x"})),
        ["sub/build/out", "sub/special.log"]
    );
    // `.ignore` outranks git's, and counts everywhere.
    bench.write(".ignore", "!kept\n!.env\nspecial.log\n");
    assert_eq!(
        files(&bench, json!({"pattern": "x"})),
        [".env", "kept", "sub/build/out"]
    );
    // A repository in a repository begins anew.
    std::fs::create_dir(bench.path("sub/.git")).unwrap();
    assert_eq!(
        files(&bench, json!({"pattern": "x"})),
        [".env", "kept", "sub/build/out", "sub/dropped.log"]
    );
}

#[test]
fn the_exclude_file_of_a_worktree_is_found() {
    let bench = Workbench::new();
    bench.write("main/.git/info/exclude", "secret\n");
    bench.write("main/.git/worktrees/tree/commondir", "../..\n");
    bench.write("tree/.git", "gitdir: /workspace/main/.git/worktrees/tree\n");
    bench.write("tree/secret", "x");
    bench.write("tree/open", "x");
    assert_eq!(
        files(&bench, json!({"pattern": "x", "path": "tree"})),
        ["tree/open"]
    );
}

#[test]
fn includes_and_excludes_outrank_ignore_files() {
    let bench = Workbench::new();
    for file in [
        "a.rs",
        "a.ts",
        "src/b.rs",
        "src/b.tsx",
        "target/c.rs",
        ".hidden.rs",
    ] {
        bench.write(file, "x");
    }
    bench.write(".ignore", "a.rs\n");
    assert_eq!(
        files(&bench, json!({"pattern": "x", "include": "*.rs"})),
        [".hidden.rs", "a.rs", "src/b.rs", "target/c.rs"]
    );
    assert_eq!(
        files(&bench, json!({"pattern": "x", "include": "*.{ts,tsx}"})),
        ["a.ts", "src/b.tsx"]
    );
    assert_eq!(
        files(&bench, json!({"pattern": "x", "include": "src/**"})),
        ["src/b.rs", "src/b.tsx"]
    );
    assert_eq!(
        files(&bench, json!({"pattern": "x", "exclude": "*.rs"})),
        ["a.ts", "src/b.tsx"]
    );
    assert_eq!(
        files(
            &bench,
            json!({"pattern": "x", "include": "*.rs", "exclude": "target"})
        ),
        [".hidden.rs", "a.rs", "src/b.rs"]
    );
}

#[test]
fn binary_files_are_left_out_also_when_they_begin_as_text() {
    let bench = Workbench::new();
    bench.write_bytes("early", b"x\0x\n");
    bench.write_bytes(
        "late",
        &[b"x\n".as_slice(), &b"y\n".repeat(100_000), b"\0x\n"].concat(),
    );
    bench.write_bytes("latin", b"x\xe9\n");
    bench.write_bytes("wide", &[0xff, 0xfe, b'x', 0, b'\n', 0]);
    assert_eq!(
        found(&bench, json!({"pattern": "x"})),
        "latin:1:x\u{fffd}\nwide:1:x\n"
    );
    let named = bench.run("grep", json!({"pattern": "x", "path": "early"}));
    assert!(
        named.is_error && named.content.contains("binary"),
        "{}",
        named.content
    );
}

#[test]
fn links_pipes_and_devices_are_not_opened() {
    let bench = Workbench::new();
    bench.write("f", "root:x\n");
    std::os::unix::fs::symlink("/etc/passwd", bench.path("passwd")).unwrap();
    std::os::unix::fs::symlink("/etc", bench.path("etc")).unwrap();
    std::os::unix::fs::symlink(".", bench.path("loop")).unwrap();
    let pipe = (rustix::fs::FileType::Fifo, bench.path("pipe"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe.1,
        pipe.0,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    std::fs::rename(&pipe.1, bench.path(".ignore")).unwrap();
    assert_eq!(found(&bench, json!({"pattern": "root"})), "f:1:root:x\n");
    let piped = bench.run("grep", json!({"pattern": "x", "path": ".ignore"}));
    assert!(
        piped.is_error && piped.content.contains("not a regular file"),
        "{}",
        piped.content
    );
}

#[test]
fn a_search_goes_deeper_than_any_path_is_long() {
    let bench = Workbench::new();
    bench.nest("deep", 400);
    bench.write("z", "x\n");
    assert_eq!(found(&bench, json!({"pattern": "x"})), "z:1:x\n");
}

#[test]
fn matches_of_each_file_are_sent_as_progress() {
    let bench = Workbench::new();
    bench.write("a", "x\n");
    bench.write("b", "x\nx\n");
    let (answer, told) = bench.run_with_progress("grep", json!({"pattern": "x"}));
    let told: Vec<String> = told.into_iter().map(|item| item.content).collect();
    assert_eq!(told, ["a:1:x\n", "b:1:x\nb:2:x\n"]);
    assert_eq!(answer.unwrap().content, told.concat());
}

#[test]
fn a_search_stops_on_timeout_and_on_cancellation() {
    let mut bench = Workbench::new();
    bench.write("f", "x\n");
    bench.time_limit = Duration::ZERO;
    let late = bench.run("grep", json!({"pattern": "x"}));
    assert!(late.timed_out && late.is_error, "{late:?}");
    bench.cancelled.cancel();
    let (cancelled, _) = bench.run_with_progress("grep", json!({"pattern": "x"}));
    assert_eq!(cancelled.unwrap_err().code(), ErrorCode::Unavailable);
}

#[test]
fn pattern_that_compiles_to_too_much_is_refused() {
    for pattern in [
        "\\w{1000}".to_owned(),
        "(\\pL{50}){50}".to_owned(),
        "a".repeat(5_000),
    ] {
        let Value::Object(params) = json!({"pattern": pattern}) else {
            unreachable!()
        };
        assert_eq!(
            PreparedCall::new("grep", params).unwrap_err().code(),
            ErrorCode::InvalidArgument
        );
    }
    let bench = Workbench::new();
    bench.write("f", "naïve words\n");
    assert_eq!(
        found(&bench, json!({"pattern": "\\w{5} \\w{5,50}"})),
        "f:1:naïve words\n"
    );
}
