//! Completes a command line from the definitions of the verbs.

use clap::{Arg, ArgAction, Command};

use super::{
    Answer, Candidate,
    answer::Paths,
    live::{NameQuery, QueryTarget},
    source::{Names, Source, source_of},
};

/// Parser state after the words before the cursor.
struct Position<'a> {
    /// Verb with subcommands: `base rm`.
    verb: String,
    command: &'a Command,
    /// Global options of the parent commands.
    global: Vec<&'a Arg>,
    /// Positional values.
    positional: Vec<&'a str>,
    /// Options given so far.
    given: Vec<&'a Arg>,
    /// Option whose value comes next.
    awaiting: Option<&'a Arg>,
    /// Value of `--url`.
    url: Option<&'a str>,
    /// Value of `--ca-file`.
    ca_file: Option<&'a str>,
    /// Whether only values follow: after `--`, or inside a command for the sandbox.
    only_values: bool,
}

/// Returns the completions of `current` after the words `before`. `ask` fetches names from the
/// host.
pub(super) fn complete(
    root: &Command,
    before: &[String],
    current: &str,
    ask: impl Fn(NameQuery<'_>, QueryTarget<'_>) -> Vec<Candidate>,
) -> Answer {
    let mut position = Position {
        verb: String::new(),
        command: root,
        global: Vec::new(),
        positional: Vec::new(),
        given: Vec::new(),
        awaiting: None,
        url: None,
        ca_file: None,
        only_values: false,
    };
    for word in before {
        position.consume(word);
    }
    let target = QueryTarget {
        url: position.url,
        ca_file: position.ca_file,
        session: position.positional.first().copied(),
    };
    if let Some(option) = position.awaiting {
        return values(&position.verb, option, current, target, &ask);
    }
    if !position.only_values && current.starts_with('-') {
        return match current.split_once('=') {
            Some((name, value)) => position
                .option(name)
                .map_or_else(Answer::default, |option| {
                    prefixed(
                        &format!("{name}="),
                        values(&position.verb, option, value, target, &ask),
                    )
                }),
            None => position.options().starting_with(current),
        };
    }
    if position.command.has_subcommands() {
        let verbs = position
            .command
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set());
        let about = |verb: &Command| {
            verb.get_about()
                .map(ToString::to_string)
                .unwrap_or_default()
        };
        return Answer::of(
            verbs
                .map(|verb| Candidate::new(verb.get_name(), about(verb)))
                .collect(),
        )
        .starting_with(current);
    }
    match position.next_positional() {
        // A command for the sandbox; its programs are not known.
        Some(argument) if argument.is_trailing_var_arg_set() => Answer::default(),
        Some(argument) => values(&position.verb, argument, current, target, &ask),
        None => Answer::default(),
    }
}

impl<'a> Position<'a> {
    /// Parses one finished word.
    fn consume(&mut self, word: &'a str) {
        if let Some(option) = self.awaiting.take() {
            self.note_value(option, word);
        } else if self.only_values {
            self.positional.push(word);
        } else if word == "--" {
            self.only_values = true;
        } else if word.starts_with("--") {
            let (name, value) = word
                .split_once('=')
                .map_or((word, None), |(name, value)| (name, Some(value)));
            if let Some(option) = self.option(name) {
                self.give(option, value);
            }
        } else if word.len() > 1 && word.starts_with('-') {
            self.consume_short(word);
        } else if let Some(command) = self.command.find_subcommand(word) {
            self.global.extend(
                self.command
                    .get_arguments()
                    .filter(|argument| argument.is_global_set()),
            );
            self.command = command;
            let space = if self.verb.is_empty() { "" } else { " " };
            self.verb = format!("{}{space}{}", self.verb, command.get_name());
        } else {
            self.only_values = self
                .next_positional()
                .is_some_and(Arg::is_trailing_var_arg_set);
            self.positional.push(word);
        }
    }

    /// Parses `-it` or `-n5`: the first option that takes a value takes the rest.
    fn consume_short(&mut self, word: &'a str) {
        for (at, letter) in word.char_indices().skip(1) {
            let Some(option) = self
                .arguments()
                .find(|argument| argument.get_short() == Some(letter))
            else {
                return;
            };
            let rest = Some(&word[at + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
            self.give(option, rest);
            if takes_value(option) {
                return;
            }
        }
    }

    fn give(&mut self, option: &'a Arg, value: Option<&'a str>) {
        self.given.push(option);
        match value {
            Some(value) => self.note_value(option, value),
            None if takes_value(option) => self.awaiting = Some(option),
            None => {}
        }
    }

    fn note_value(&mut self, option: &Arg, value: &'a str) {
        match option.get_id().as_str() {
            "url" => self.url = Some(value),
            "ca_file" => self.ca_file = Some(value),
            _ => {}
        }
    }

    /// Returns all arguments of the command, with the global ones.
    fn arguments(&self) -> impl Iterator<Item = &'a Arg> + use<'a> {
        let global = self.global.clone();
        self.command.get_arguments().chain(global)
    }

    fn option(&self, name: &str) -> Option<&'a Arg> {
        let long = name.strip_prefix("--");
        let short = name.strip_prefix('-').and_then(|rest| rest.chars().next());
        self.arguments().find(|argument| match long {
            Some(long) => argument.get_long() == Some(long),
            None => short.is_some() && argument.get_short() == short,
        })
    }

    /// Returns the options that may still be given.
    fn options(&self) -> Answer {
        let again =
            |option: &Arg| matches!(option.get_action(), ArgAction::Append | ArgAction::Count);
        let free = self.arguments().filter(|option| {
            let given = self
                .given
                .iter()
                .any(|given| given.get_id() == option.get_id());
            !option.is_positional() && !option.is_hide_set() && (again(option) || !given)
        });
        let mut candidates: Vec<Candidate> = free
            .flat_map(|option| {
                let help = option
                    .get_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let long = option
                    .get_long()
                    .map(|long| Candidate::new(format!("--{long}"), help.clone()));
                let short = option
                    .get_short()
                    .map(|short| Candidate::new(format!("-{short}"), help));
                [long, short].into_iter().flatten()
            })
            .collect();
        candidates.push(Candidate::new("--help", "Print help"));
        Answer::of(candidates)
    }

    /// Returns the argument that the next value belongs to.
    fn next_positional(&self) -> Option<&'a Arg> {
        let mut last = None;
        for (number, argument) in self.command.get_positionals().enumerate() {
            if number == self.positional.len() {
                return Some(argument);
            }
            last = Some(argument);
        }
        last.filter(|argument| {
            argument
                .get_num_args()
                .is_some_and(|count| count.max_values() > 1)
        })
    }
}

fn takes_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

fn values(
    verb: &str,
    argument: &Arg,
    current: &str,
    target: QueryTarget<'_>,
    ask: &impl Fn(NameQuery<'_>, QueryTarget<'_>) -> Vec<Candidate>,
) -> Answer {
    let answer = match source_of(verb, argument) {
        Source::Anything => Answer::default(),
        Source::Words(words) => Answer::of(words),
        Source::Prefixes(words) => {
            let continues = words
                .iter()
                .filter(|word| word.value.starts_with(current))
                .all(|word| word.value.ends_with(['=', '/', ':', '@']));
            Answer {
                continues,
                ..Answer::of(words)
            }
        }
        Source::Paths(paths) => Answer::of_paths(paths),
        Source::WordsOrPaths(words, paths) => Answer {
            paths: Some(paths),
            ..Answer::of(words)
        },
        Source::Side => side(current, target, ask),
        Source::Live(names) => Answer::of(ask(NameQuery::Names(names), target)),
    };
    answer.starting_with(current)
}

/// Completes one side of a copy: a local path, or `ID:path`.
fn side(
    current: &str,
    target: QueryTarget<'_>,
    ask: &impl Fn(NameQuery<'_>, QueryTarget<'_>) -> Vec<Candidate>,
) -> Answer {
    let Some((session, path)) = current
        .split_once(':')
        .filter(|(session, _)| !session.contains('/'))
    else {
        let names = ask(NameQuery::Names(Names::Sessions), target).into_iter();
        let names = names.map(|name| Candidate::new(format!("{}:", name.value), name.help));
        let answer = Answer::of(names.collect()).starting_with(current);
        return Answer {
            paths: Some(Paths::Files),
            continues: !answer.candidates.is_empty(),
            ..answer
        };
    };
    let directory = path.rfind('/').map_or("", |slash| &path[..=slash]);
    let target = QueryTarget {
        session: Some(session),
        ..target
    };
    let found = ask(
        NameQuery::Entries(if directory.is_empty() { "." } else { directory }),
        target,
    );
    let whole = found
        .into_iter()
        .map(|entry| Candidate::plain(format!("{session}:{directory}{}", entry.value)));
    let answer = Answer::of(whole.collect()).starting_with(current);
    Answer {
        continues: answer
            .candidates
            .iter()
            .all(|found| found.value.ends_with('/')),
        ..answer
    }
}

fn prefixed(prefix: &str, mut answer: Answer) -> Answer {
    for candidate in &mut answer.candidates {
        candidate.value.insert_str(0, prefix);
    }
    answer
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn host(wanted: NameQuery<'_>, target: QueryTarget<'_>) -> Vec<Candidate> {
        let names: &[&str] = match (wanted, target.session) {
            (NameQuery::Names(Names::Sessions), _) => &["box", "build-42"],
            (NameQuery::Names(Names::Snapshots), Some("box")) => &["before", "turn-0001"],
            (NameQuery::Names(Names::Processes), Some("box")) => &["p1"],
            (NameQuery::Names(Names::Bases), _) => &["host", "debian"],
            (NameQuery::Names(Names::Secrets), _) => &["openai"],
            (NameQuery::Names(Names::Tokens), _) => &["ci"],
            (NameQuery::Names(Names::Tools), _) => &["bash", "grep"],
            (NameQuery::Entries("."), Some("box")) => &["notes.txt", "src/"],
            (NameQuery::Entries("src/"), Some("box")) => &["main.rs"],
            _ => &[],
        };
        names.iter().map(|name| Candidate::plain(*name)).collect()
    }

    fn answer(words: &[&str]) -> Answer {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let (current, before) = words.split_last().unwrap();
        complete(&Cli::command(), before, current, host)
    }

    fn candidates(words: &[&str]) -> Vec<String> {
        answer(words)
            .candidates
            .into_iter()
            .map(|candidate| candidate.value)
            .collect()
    }

    #[test]
    fn verbs_and_subcommands_complete() {
        assert_eq!(candidates(&["snap"]), ["snapshot", "snapshots"]);
        assert_eq!(
            candidates(&["base", ""]),
            ["ls", "import", "save", "login", "rm"]
        );
        assert!(candidates(&[""]).contains(&"completion".to_owned()));
        assert_eq!(candidates(&["--url", "http://x", "diff"]), ["diff"]);
        assert_eq!(candidates(&["nonsense", "x"]), [""; 0]);
    }

    #[test]
    fn options_complete_until_they_are_given() {
        assert_eq!(
            candidates(&["ls", "--"]),
            [
                "--label",
                "--state",
                "--quiet",
                "--json",
                "--url",
                "--ca-file",
                "--help"
            ]
        );
        assert!(candidates(&["ls", "-"]).contains(&"-q".to_owned()));
        assert_eq!(candidates(&["ls", "-q", "--q"]), [""; 0]);
        assert_eq!(candidates(&["ls", "--label", "a=b", "--la"]), ["--label"]);
        assert_eq!(
            candidates(&["ls", "--label", "--st"]),
            [""; 0],
            "it is the value of --label"
        );
    }

    #[test]
    fn values_complete_from_the_host() {
        assert_eq!(candidates(&["exec", "b"]), ["box", "build-42"]);
        assert_eq!(candidates(&["exec", "-it", "bo"]), ["box"]);
        assert_eq!(
            candidates(&["exec", "-e", "A=b", "--timeout", "5s", "bo"]),
            ["box"]
        );
        assert_eq!(candidates(&["rm", "box", "bu"]), ["build-42"]);
        assert_eq!(
            candidates(&["rollback", "box", ""]),
            ["before", "turn-0001"]
        );
        assert_eq!(candidates(&["diff", "box", "before", "t"]), ["turn-0001"]);
        assert_eq!(candidates(&["fork", "box", "--from", "b"]), ["before"]);
        assert_eq!(candidates(&["fork", "box", "--from=b"]), ["--from=before"]);
        assert_eq!(candidates(&["kill", "box", ""]), ["p1"]);
        assert_eq!(candidates(&["kill", "box", "p1", "-s", "K"]), ["KILL"]);
        assert_eq!(candidates(&["new", "--base", "d"]), ["debian"]);
        assert_eq!(candidates(&["base", "rm", "h"]), ["host"]);
        assert_eq!(candidates(&["secret", "rm", ""]), ["openai"]);
        assert_eq!(candidates(&["token", "rm", ""]), ["ci"]);
        assert_eq!(candidates(&["tool", "box", "g"]), ["grep"]);
        assert_eq!(candidates(&["ls", "--state", "pa"]), ["paused"]);
        assert_eq!(candidates(&["up", "--storage", "b"]), ["btrfs"]);
        assert_eq!(candidates(&["completion", "z"]), ["zsh"]);
    }

    #[test]
    fn new_names_and_command_arguments_are_not_completed() {
        for words in [
            &["new", "--id", "b"][..],
            &["snapshot", "box", "b"],
            &["exec", "box", "--", "b"],
            &["exec", "box", "b"],
            &["exec", "box", "sh", "--"],
            &["inspect", "box", "b"],
            &["new", "--ttl", ""],
        ] {
            assert_eq!(answer(words), Answer::default(), "{words:?}");
        }
    }

    #[test]
    fn paths_are_left_to_the_shell() {
        assert_eq!(answer(&["up", "--config", ""]).paths, Some(Paths::Files));
        assert_eq!(
            answer(&["up", "--data-dir", ""]).paths,
            Some(Paths::Directories)
        );
        assert_eq!(answer(&["run", "-v", ""]).paths, Some(Paths::Directories));
        let import = answer(&["base", "import", "name", ""]);
        assert_eq!(
            (import.paths, import.candidates.len()),
            (Some(Paths::Files), 1)
        );
    }

    #[test]
    fn both_sides_of_a_copy_complete() {
        let here = answer(&["cp", "bo"]);
        assert_eq!((here.paths, here.continues), (Some(Paths::Files), true));
        assert_eq!(here.candidates[0].value, "box:");
        let file = answer(&["cp", "x", "box:n"]);
        assert_eq!(
            (
                file.candidates[0].value.as_str(),
                file.paths,
                file.continues
            ),
            ("box:notes.txt", None, false)
        );
        let directory = answer(&["cp", "box:s"]);
        assert_eq!(
            (directory.candidates[0].value.as_str(), directory.continues),
            ("box:src/", true)
        );
        assert_eq!(candidates(&["cp", "box:src/m"]), ["box:src/main.rs"]);
    }
}
