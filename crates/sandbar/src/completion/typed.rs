//! From the words typed so far to what may follow.

use clap::{Arg, ArgAction, Command};

use super::{
    Answer, Candidate,
    answer::Paths,
    live::{Place, Wanted},
    source::{Names, Source, source_of},
};

/// Where in the command line we are.
struct Position<'a> {
    /// All verbs so far: `base rm`.
    verb: String,
    command: &'a Command,
    /// Options of the commands above that count everywhere.
    global: Vec<&'a Arg>,
    /// Values that belong to no option.
    positional: Vec<&'a str>,
    /// Options given so far.
    given: Vec<&'a Arg>,
    /// The option whose value comes next.
    awaiting: Option<&'a Arg>,
    /// The value of `--url`.
    url: Option<&'a str>,
    /// The value of `--ca-file`.
    ca_file: Option<&'a str>,
    /// After `--`, or inside a command for the sandbox.
    only_values: bool,
}

/// What may stand in place of `current`, after `before`. `ask` is how names of the host are found.
pub(super) fn complete(
    root: &Command,
    before: &[String],
    current: &str,
    ask: impl Fn(Wanted<'_>, Place<'_>) -> Vec<Candidate>,
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
        position.pass(word);
    }
    let place = Place { url: position.url, ca_file: position.ca_file, session: position.positional.first().copied() };
    if let Some(option) = position.awaiting {
        return values(&position.verb, option, current, place, &ask);
    }
    if !position.only_values && current.starts_with('-') {
        return match current.split_once('=') {
            Some((name, value)) => position.option(name).map_or_else(Answer::default, |option| {
                prefixed(&format!("{name}="), values(&position.verb, option, value, place, &ask))
            }),
            None => position.options().starting_with(current),
        };
    }
    if position.command.has_subcommands() {
        let verbs = position.command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
        return Answer::of(verbs.map(|verb| Candidate::new(verb.get_name(), about(verb))).collect())
            .starting_with(current);
    }
    match position.next_positional() {
        // A command for the sandbox, whose programs we do not know.
        Some(argument) if argument.is_trailing_var_arg_set() => Answer::default(),
        Some(argument) => values(&position.verb, argument, current, place, &ask),
        None => Answer::default(),
    }
}

impl<'a> Position<'a> {
    /// Takes in one finished word.
    fn pass(&mut self, word: &'a str) {
        if let Some(option) = self.awaiting.take() {
            self.note_value(option, word);
        } else if self.only_values {
            self.positional.push(word);
        } else if word == "--" {
            self.only_values = true;
        } else if word.starts_with("--") {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            if let Some(option) = self.option(name) {
                self.give(option, value);
            }
        } else if word.len() > 1 && word.starts_with('-') {
            self.pass_short(word);
        } else if let Some(command) = self.command.find_subcommand(word) {
            self.global.extend(self.command.get_arguments().filter(|argument| argument.is_global_set()));
            self.command = command;
            let space = if self.verb.is_empty() { "" } else { " " };
            self.verb = format!("{}{space}{}", self.verb, command.get_name());
        } else {
            self.only_values = self.next_positional().is_some_and(Arg::is_trailing_var_arg_set);
            self.positional.push(word);
        }
    }

    /// `-it`, `-n5`: the first one that takes a value takes the rest.
    fn pass_short(&mut self, word: &'a str) {
        for (at, letter) in word.char_indices().skip(1) {
            let Some(option) = self.arguments().find(|argument| argument.get_short() == Some(letter)) else { return };
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

    /// Everything that may be given here.
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

    /// The options that may still be given.
    fn options(&self) -> Answer {
        let again = |option: &Arg| matches!(option.get_action(), ArgAction::Append | ArgAction::Count);
        let free = self.arguments().filter(|option| {
            let given = self.given.iter().any(|given| given.get_id() == option.get_id());
            !option.is_positional() && !option.is_hide_set() && (again(option) || !given)
        });
        let mut candidates: Vec<Candidate> = free
            .flat_map(|option| {
                let help = option.get_help().map(ToString::to_string).unwrap_or_default();
                let long = option.get_long().map(|long| Candidate::new(format!("--{long}"), help.clone()));
                let short = option.get_short().map(|short| Candidate::new(format!("-{short}"), help));
                [long, short].into_iter().flatten()
            })
            .collect();
        candidates.push(Candidate::new("--help", "Print help"));
        Answer::of(candidates)
    }

    /// The argument the next value belongs to.
    fn next_positional(&self) -> Option<&'a Arg> {
        let mut last = None;
        for (number, argument) in self.command.get_positionals().enumerate() {
            if number == self.positional.len() {
                return Some(argument);
            }
            last = Some(argument);
        }
        last.filter(|argument| argument.get_num_args().is_some_and(|count| count.max_values() > 1))
    }
}

fn takes_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

fn values(
    verb: &str,
    argument: &Arg,
    current: &str,
    place: Place<'_>,
    ask: &impl Fn(Wanted<'_>, Place<'_>) -> Vec<Candidate>,
) -> Answer {
    let answer = match source_of(verb, argument) {
        Source::Anything => Answer::default(),
        Source::Words(words) => Answer::of(words),
        Source::Beginnings(words) => {
            let goes_on = words
                .iter()
                .filter(|word| word.value.starts_with(current))
                .all(|word| word.value.ends_with(['=', '/', ':', '@']));
            Answer { goes_on, ..Answer::of(words) }
        }
        Source::Paths(paths) => Answer::of_paths(paths),
        Source::WordsOrPaths(words, paths) => Answer { paths: Some(paths), ..Answer::of(words) },
        Source::Side => side(current, place, ask),
        Source::Live(names) => Answer::of(ask(Wanted::Names(names), place)),
    };
    answer.starting_with(current)
}

/// One side of a copy: a path here, or `ID:path`.
fn side(current: &str, place: Place<'_>, ask: &impl Fn(Wanted<'_>, Place<'_>) -> Vec<Candidate>) -> Answer {
    let Some((session, path)) = current.split_once(':').filter(|(session, _)| !session.contains('/')) else {
        let names = ask(Wanted::Names(Names::Sessions), place).into_iter();
        let names = names.map(|name| Candidate::new(format!("{}:", name.value), name.help));
        let answer = Answer::of(names.collect()).starting_with(current);
        return Answer { paths: Some(Paths::Files), goes_on: !answer.candidates.is_empty(), ..answer };
    };
    let directory = path.rfind('/').map_or("", |slash| &path[..=slash]);
    let place = Place { session: Some(session), ..place };
    let found = ask(Wanted::Entries(if directory.is_empty() { "." } else { directory }), place);
    let whole = found.into_iter().map(|entry| Candidate::plain(format!("{session}:{directory}{}", entry.value)));
    let answer = Answer::of(whole.collect()).starting_with(current);
    Answer { goes_on: answer.candidates.iter().all(|found| found.value.ends_with('/')), ..answer }
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

    fn host(wanted: Wanted<'_>, place: Place<'_>) -> Vec<Candidate> {
        let names: &[&str] = match (wanted, place.session) {
            (Wanted::Names(Names::Sessions), _) => &["box", "build-42"],
            (Wanted::Names(Names::Snapshots), Some("box")) => &["before", "turn-0001"],
            (Wanted::Names(Names::Processes), Some("box")) => &["p1"],
            (Wanted::Names(Names::Bases), _) => &["host", "debian"],
            (Wanted::Names(Names::Secrets), _) => &["openai"],
            (Wanted::Names(Names::Tokens), _) => &["ci"],
            (Wanted::Names(Names::Tools), _) => &["bash", "grep"],
            (Wanted::Entries("."), Some("box")) => &["notes.txt", "src/"],
            (Wanted::Entries("src/"), Some("box")) => &["main.rs"],
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
        answer(words).candidates.into_iter().map(|candidate| candidate.value).collect()
    }

    #[test]
    fn verbs_and_the_verbs_below_them_complete() {
        assert_eq!(candidates(&["snap"]), ["snapshot", "snapshots"]);
        assert_eq!(candidates(&["base", ""]), ["ls", "import", "save", "login", "rm"]);
        assert!(candidates(&[""]).contains(&"completion".to_owned()));
        assert_eq!(candidates(&["--url", "http://x", "diff"]), ["diff"]);
        assert_eq!(candidates(&["nonsense", "x"]), [""; 0]);
    }

    #[test]
    fn options_complete_until_they_are_given() {
        assert_eq!(
            candidates(&["ls", "--"]),
            ["--label", "--state", "--quiet", "--json", "--url", "--ca-file", "--help"]
        );
        assert!(candidates(&["ls", "-"]).contains(&"-q".to_owned()));
        assert_eq!(candidates(&["ls", "-q", "--q"]), [""; 0]);
        assert_eq!(candidates(&["ls", "--label", "a=b", "--la"]), ["--label"]);
        assert_eq!(candidates(&["ls", "--label", "--st"]), [""; 0], "it is the value of --label");
    }

    #[test]
    fn values_complete_from_what_the_host_knows() {
        assert_eq!(candidates(&["exec", "b"]), ["box", "build-42"]);
        assert_eq!(candidates(&["exec", "-it", "bo"]), ["box"]);
        assert_eq!(candidates(&["exec", "-e", "A=b", "--timeout", "5s", "bo"]), ["box"]);
        assert_eq!(candidates(&["rm", "box", "bu"]), ["build-42"]);
        assert_eq!(candidates(&["rollback", "box", ""]), ["before", "turn-0001"]);
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
    fn what_is_new_or_belongs_to_a_command_is_left_to_whoever_types() {
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
        assert_eq!(answer(&["up", "--data-dir", ""]).paths, Some(Paths::Directories));
        assert_eq!(answer(&["run", "-v", ""]).paths, Some(Paths::Directories));
        let import = answer(&["base", "import", "name", ""]);
        assert_eq!((import.paths, import.candidates.len()), (Some(Paths::Files), 1));
    }

    #[test]
    fn both_sides_of_a_copy_complete_also_inside_the_sandbox() {
        let here = answer(&["cp", "bo"]);
        assert_eq!((here.paths, here.goes_on), (Some(Paths::Files), true));
        assert_eq!(here.candidates[0].value, "box:");
        let file = answer(&["cp", "x", "box:n"]);
        assert_eq!((file.candidates[0].value.as_str(), file.paths, file.goes_on), ("box:notes.txt", None, false));
        let directory = answer(&["cp", "box:s"]);
        assert_eq!((directory.candidates[0].value.as_str(), directory.goes_on), ("box:src/", true));
        assert_eq!(candidates(&["cp", "box:src/m"]), ["box:src/main.rs"]);
    }
}
