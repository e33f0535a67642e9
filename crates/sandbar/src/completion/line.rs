//! Splits a command line into words as a shell does, as far as completion needs it.

/// Words of the command being typed; the last one is unfinished and may be empty.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) words: Vec<String>,
}

/// Returns the last command of a line, from `program` on, without earlier commands and variable
/// assignments.
pub(super) fn last_command(line: &str, program: &str) -> Option<Typed> {
    let words = split(line);
    let start = words.iter().position(|word| word == program)?;
    Some(Typed {
        words: words[start..].to_vec(),
    })
    .filter(|typed| typed.words.len() > 1)
}

fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut within_word = false;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' if quote.is_none_or(|open| open == character) => {
                quote = quote.xor(Some(character));
                within_word = true;
            }
            '\\' if quote != Some('\'') => {
                push(&mut words, characters.next());
                within_word = true;
            }
            ' ' | '\t' | '\n' if quote.is_none() => {
                if within_word {
                    words.push(String::new());
                }
                within_word = false;
            }
            '|' | ';' | '&' | '(' | '`' if quote.is_none() => {
                words = vec![String::new()];
                within_word = false;
            }
            _ => {
                push(&mut words, Some(character));
                within_word = true;
            }
        }
    }
    words
}

fn push(words: &mut [String], character: Option<char>) {
    if let Some(word) = words.last_mut() {
        word.extend(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_command_is_split_into_words() {
        for (line, words) in [
            ("sandbar ", vec!["sandbar", ""]),
            ("sandbar ex", vec!["sandbar", "ex"]),
            ("sandbar exec box --", vec!["sandbar", "exec", "box", "--"]),
            ("echo a b | sandbar  rm x ", vec!["sandbar", "rm", "x", ""]),
            (
                "A=1 sandbar ls; sandbar cp box:a",
                vec!["sandbar", "cp", "box:a"],
            ),
            ("id=$(sandbar new --la", vec!["sandbar", "new", "--la"]),
            (
                "sandbar cp 'a b' \"c d",
                vec!["sandbar", "cp", "a b", "c d"],
            ),
            (
                "sandbar cp a\\ b \"it's",
                vec!["sandbar", "cp", "a b", "it's"],
            ),
            ("sandbar exec '' x", vec!["sandbar", "exec", "", "x"]),
        ] {
            assert_eq!(
                last_command(line, "sandbar").unwrap().words,
                words,
                "{line}"
            );
        }
        for nothing in ["", "sandbar", "ls "] {
            assert_eq!(last_command(nothing, "sandbar"), None, "{nothing:?}");
        }
    }
}
