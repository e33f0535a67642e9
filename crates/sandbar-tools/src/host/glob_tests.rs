//! Tests of `glob`: found and left-out files.

use sandbar_core::ErrorCode;
use serde_json::{Value, json};

use super::testing::Workbench;

fn found(bench: &Workbench, params: Value) -> String {
    let answer = bench.run("glob", params);
    assert!(!answer.is_error, "{}", answer.content);
    answer.content
}

fn bench() -> Workbench {
    let bench = Workbench::new();
    for file in [
        "top.rs",
        "src/b.rs",
        "src/a.rs",
        "src/deep/er/c.rs",
        "src/d.ts",
        ".github/ci.yml",
        "src/.env",
    ] {
        bench.write(file, "");
    }
    bench
}

#[test]
fn a_star_stays_in_a_name_and_two_cross_directories() {
    let bench = bench();
    assert_eq!(found(&bench, json!({"pattern": "*.rs"})), "top.rs\n");
    assert_eq!(
        found(&bench, json!({"pattern": "**/*.rs"})),
        "src/a.rs\nsrc/b.rs\nsrc/deep/er/c.rs\ntop.rs\n"
    );
    assert_eq!(
        found(&bench, json!({"pattern": "src/*.{rs,ts}"})),
        "src/a.rs\nsrc/b.rs\nsrc/d.ts\n"
    );
    assert_eq!(
        found(&bench, json!({"pattern": "src/**/c.rs"})),
        "src/deep/er/c.rs\n"
    );
    assert_eq!(
        found(&bench, json!({"pattern": "s?c/[ab].rs"})),
        "src/a.rs\nsrc/b.rs\n"
    );
    assert_eq!(found(&bench, json!({"pattern": "top.rs"})), "top.rs\n");
    assert_eq!(
        found(&bench, json!({"pattern": "./src/a.rs"})),
        "./src/a.rs\n"
    );
    assert_eq!(
        found(&bench, json!({"pattern": "*.py"})),
        "[no files match]"
    );
}

#[test]
fn paths_are_shown_as_they_were_asked_for() {
    let bench = bench();
    assert_eq!(
        found(&bench, json!({"pattern": "*.rs", "path": "src"})),
        "src/a.rs\nsrc/b.rs\n"
    );
    assert_eq!(
        found(&bench, json!({"pattern": "/workspace/s*/a.rs"})),
        "/workspace/src/a.rs\n"
    );
    assert_eq!(
        found(&bench, json!({"pattern": "a.*", "path": "/workspace/src/"})),
        "/workspace/src/a.rs\n"
    );
    assert_eq!(
        found(&bench, json!({"pattern": "none/*.rs"})),
        "[no files match]"
    );
    let missing = bench.run("glob", json!({"pattern": "*.rs", "path": "none"}));
    assert!(
        missing.is_error && missing.content.contains("does not exist"),
        "{}",
        missing.content
    );
}

#[test]
fn hidden_and_ignored_files_come_only_when_they_are_named() {
    let bench = bench();
    assert_eq!(
        found(&bench, json!({"pattern": "**/*.yml"})),
        "[no files match]"
    );
    assert_eq!(
        found(&bench, json!({"pattern": ".github/*.yml"})),
        ".github/ci.yml\n"
    );
    assert_eq!(found(&bench, json!({"pattern": "**/.env"})), "src/.env\n");
    std::fs::create_dir(bench.path(".git")).unwrap();
    bench.write(".gitignore", "src/\n");
    assert_eq!(found(&bench, json!({"pattern": "**/*.rs"})), "top.rs\n");
    assert_eq!(
        found(&bench, json!({"pattern": "*.rs", "path": "src"})),
        "src/a.rs\nsrc/b.rs\n"
    );
}

#[test]
fn at_most_max_results_come_and_more_is_said() {
    let bench = Workbench::new();
    for number in 0..201 {
        bench.write(&format!("{number:03}"), "");
    }
    let answer = bench.run("glob", json!({"pattern": "*"}));
    assert!(
        answer.truncated && answer.content.ends_with("raise `max_results`]"),
        "{}",
        answer.content
    );
    assert_eq!(answer.content.lines().count(), 201);
    assert!(
        !bench
            .run("glob", json!({"pattern": "*", "max_results": 201}))
            .truncated
    );
}

#[test]
fn links_are_shown_and_not_followed() {
    let bench = Workbench::new();
    std::os::unix::fs::symlink("/etc", bench.path("etc")).unwrap();
    assert_eq!(found(&bench, json!({"pattern": "**"})), "etc\n");
    assert_eq!(
        found(&bench, json!({"pattern": "etc/*"})),
        "[no files match]"
    );
}

#[test]
fn deeply_nested_braces_in_an_ignore_file_leave_the_host_alive() {
    let bench = bench();
    bench.write(
        ".ignore",
        &format!("{}a{}\nsrc\n", "{".repeat(15_000), "}".repeat(15_000)),
    );
    assert_eq!(found(&bench, json!({"pattern": "**/*.rs"})), "top.rs\n");
}

#[test]
fn deeply_nested_braces_in_a_pattern_are_refused() {
    for depth in [9, 3_000, 60_000] {
        let deep = format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        for params in [
            json!({"pattern": deep}),
            json!({"pattern": format!("src/{deep}")}),
        ] {
            let serde_json::Value::Object(params) = params else {
                unreachable!()
            };
            assert_eq!(
                crate::PreparedCall::new("glob", params).unwrap_err().code(),
                ErrorCode::InvalidArgument
            );
        }
        for field in ["include", "exclude"] {
            let serde_json::Value::Object(params) = json!({"pattern": "x", field: deep}) else {
                unreachable!()
            };
            assert_eq!(
                crate::PreparedCall::new("grep", params).unwrap_err().code(),
                ErrorCode::InvalidArgument
            );
        }
    }
}

#[test]
fn ignore_files_beyond_the_budget_do_not_count_and_it_is_said() {
    let bench = Workbench::new();
    let bomb = (0..186_318).fold(String::new(), |text, number| {
        text + &format!("*{number:x}*\n")
    });
    bench.write("bomb", &bomb);
    let mut directory = String::new();
    for _ in 0..40 {
        directory.push_str("zz/");
        std::fs::create_dir(bench.path(&directory)).unwrap();
        for name in [".gitignore", ".ignore", ".rgignore"] {
            std::fs::hard_link(
                bench.path("bomb"),
                bench.path(&format!("{directory}{name}")),
            )
            .unwrap();
        }
    }
    bench.write(&format!("{directory}q.zzz"), "x\n");
    let answer = found(&bench, json!({"pattern": "**/*.zzz"}));
    assert!(
        answer.starts_with(&format!("{directory}q.zzz\n")) && answer.contains("were not applied"),
        "{answer}"
    );
    let searched = bench.run("grep", json!({"pattern": "x", "path": "zz"}));
    assert!(
        searched.content.contains("were not applied"),
        "{}",
        searched.content
    );
}
