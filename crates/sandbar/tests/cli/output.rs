//! Snapshot tests of stdout, stderr and exit code of common calls, stored in `snapshots/`.
//!
//! After an intended change, `INSTA_UPDATE=always cargo nextest run -p sandbar --test cli -E
//! 'test(/^output::/)'` writes them anew; the difference is in the commit.

use crate::world::{Said, World, alone, alone_command};

/// Compares several calls with their snapshot.
fn assert_snapshot(name: &str, calls: &[(String, Said)]) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let show = |(call, said): &(String, Said)| {
        let (stdout, stderr) = (normalised(&said.stdout), normalised(&said.stderr));
        format!(
            "$ sandbar {call}\n{stdout}--- stderr\n{stderr}--- exit code {}\n\n",
            said.code
        )
    };
    let text: String = calls.iter().map(show).collect();
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Replaces what differs between runs: generated ids, and cells with times and sizes.
fn normalised(text: &str) -> String {
    let mut varying: Vec<usize> = Vec::new();
    let line = |line: &str| {
        let cells: Vec<&str> = line
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        let is_header = |cell: &&str| ["CREATED", "USED", "SIZE"].contains(cell);
        if cells.iter().any(is_header) {
            varying = (0..cells.len())
                .filter(|column| is_header(&cells[*column]))
                .collect();
        }
        if varying.is_empty() {
            return format!("{}\n", without_ids(line));
        }
        // As wide as its widest cell: the width of a column varies as well.
        let cells = cells.iter().enumerate().map(|(column, cell)| {
            if varying.contains(&column) && !is_header(cell) {
                "[varies]".to_owned()
            } else {
                without_ids(cell)
            }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  "))
    };
    text.lines().map(line).collect()
}

fn without_ids(text: &str) -> String {
    let is_id = |word: &str| {
        word.len() == 17
            && word.starts_with('s')
            && word.contains(|digit: char| digit.is_ascii_digit())
            && word
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
    };
    let words = text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric());
    let replace = |word: &str| {
        let bare = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        if is_id(bare) {
            format!("[id]{}", &word[bare.len()..])
        } else {
            word.to_owned()
        }
    };
    words.map(replace).collect()
}

/// Runs calls that need no host. Words are separated by blanks.
fn without_host(calls: &[&str]) -> Vec<(String, Said)> {
    calls
        .iter()
        .map(|call| ((*call).to_owned(), alone(call.split_whitespace())))
        .collect()
}

#[test]
fn help_of_the_program_and_its_main_commands_is_printed() {
    assert_snapshot(
        "help",
        &without_host(&["--help", "new --help", "exec --help", "rollback --help"]),
    );
}

#[test]
fn wrong_usage_is_explained() {
    let calls = [
        "",
        "nonsense",
        "new --nonsense",
        "exec",
        "snapshot",
        "new --id Not_An_Id!",
        "fork x -n none",
        "new --base",
    ];
    assert_snapshot("wrong_usage", &without_host(&calls));
}

#[test]
fn missing_host_is_explained() {
    let mut command = alone_command(["ls"]);
    command
        .env("SANDBAR_URL", "http://127.0.0.1:1")
        .env("SANDBAR_TOKEN", "none");
    let said = Said::from_output(command.output().unwrap());
    assert_snapshot("missing_host", &[("ls".to_owned(), said)]);
}

/// Runs calls against one host. Words are separated by blanks; what is in one pair of single quotes
/// is one word.
fn with_host(world: &World, calls: &[&str]) -> Vec<(String, Said)> {
    let words = |call: &str| -> Vec<String> {
        let parts = call.split('\'').enumerate();
        let words = parts.flat_map(|(number, part)| {
            let words: Vec<&str> = if number % 2 == 1 {
                vec![part]
            } else {
                part.split_whitespace().collect()
            };
            words
        });
        words.map(str::to_owned).collect()
    };
    calls
        .iter()
        .map(|call| ((*call).to_owned(), world.run(words(call))))
        .collect()
}

#[test]
fn tour_of_the_readme_is_as_printed_there() {
    let world = World::new();
    let calls = [
        "run -- sh -c 'echo hello from a sandbox'",
        "new --id tour",
        "exec tour -- sh -c 'echo one > notes; mkdir src; echo \"fn main() {}\" > src/main.rs'",
        "snapshot tour clean",
        "exec tour -- sh -c 'rm -rf src; echo two >> notes; echo oops > oops'",
        "diff tour clean",
        "rollback tour clean",
        "exec tour -- ls",
        "fork tour -n 2",
        "ls",
        "turn tour",
        "snapshots tour",
        "rm tour",
    ];
    assert_snapshot("tour", &with_host(&world, &calls));
}

#[test]
fn common_mistakes_are_explained() {
    let world = World::new();
    world.sandbox("box");
    let calls = [
        "new --id box",
        "new --base nonsense",
        "exec nowhere -- true",
        "exec box -- no-such-program",
        "exec box -- sh -c 'exit 7'",
        "rollback box nonsense",
        "diff box nonsense",
        "fork box -n 0",
        "cp box:/no/such/file .",
        "rm nowhere",
        "tool box nonsense",
    ];
    assert_snapshot("common_mistakes", &with_host(&world, &calls));
}
