//! `grep`.

use std::{
    fs::File,
    io::Read,
    num::NonZeroU64,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use ignore::overrides::Override;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use sandbar_core::{Error, Result, shown_path};
use sandbar_tree::session_tree::{Step, Visitor, WalkEntry, absolute, open_regular};

use super::search::IgnoreRules;
use crate::{
    context::HostSide,
    outcome::Outcome,
    params::{FilePath, count, tool},
    patterns,
    registry::HostTool,
    text::{BoundedText, clip},
};

/// Memory one search may take; a longer line is not searched.
const HEAP: usize = 64 << 20;

/// Upper limit of `context_lines`.
const MAX_CONTEXT_LINES: u64 = 100;

tool! {
    /// Searches files for a pattern, as ripgrep does: regular expressions of Rust's regex crate,
    /// hidden files and what ignore files (.gitignore in a repository, .ignore) name are left out,
    /// binary files too. Answers `path:line:text` for matches and `path-line-text` for context,
    /// sorted by path.
    "grep", Host;
    pub(crate) struct Grep {
        /// The regular expression to look for, matched line by line.
        pattern: String,
        /// The file or directory to search. Relative paths start at /workspace, which is the
        /// default. Name an ignored directory here to search in it.
        path: Option<FilePath>,
        /// Search only files that match this glob, also ignored ones: *.rs, src/**, *.{ts,tsx}
        include: Option<String>,
        /// Leave out files that match this glob.
        exclude: Option<String>,
        /// Take the pattern as plain text.
        literal: bool = false,
        /// Ignore the difference between upper and lower case.
        ignore_case: bool = false,
        /// Lines to show before and after each match.
        context_lines: u64 = 0,
        /// The most matching lines to show.
        max_results: NonZeroU64 = count(100),
    }
}

impl HostTool for Grep {
    fn validate(&self) -> Result<()> {
        self.matcher()?;
        self.overrides()?;
        if self.context_lines > MAX_CONTEXT_LINES {
            return Err(Error::invalid(
                "context_lines",
                format!("`context_lines` is above {MAX_CONTEXT_LINES}"),
            )
            .with_hint("read the file with `read_file`"));
        }
        Ok(())
    }

    fn run(self, side: &HostSide) -> Result<Outcome> {
        let given = self.path.as_ref().map(FilePath::as_str);
        let start = absolute(Path::new(given.unwrap_or(".")))?;
        let found = side.tree.open_path(&start, OFlags::PATH)?;
        let context = usize::try_from(self.context_lines).unwrap_or(0);
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP))
            .build();
        let mut search = Search {
            side,
            matcher: self.matcher()?,
            searcher,
            most: self.max_results.get(),
            with_context: context > 0,
            shown_start: PathBuf::from(given.unwrap_or_default()),
            matches: 0,
            text: BoundedText::default(),
            truncated: false,
            unreadable: 0,
            ignore_note: None,
        };
        let is_directory = fstat(&found)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if is_directory {
            let rules = IgnoreRules::new(side, &start, self.overrides()?)?;
            let mut walk = SearchWalk {
                search: &mut search,
                rules,
            };
            side.tree.walk(&start, &mut walk)?;
            let note = walk.rules.note();
            search.ignore_note = note;
        } else {
            let (file, _) = side.tree.open_file(&start)?;
            if search.file(&file, &PathBuf::from(given.unwrap_or_default()))? == Searched::Binary {
                return Ok(Outcome::failed(format!(
                    "`{}` is a binary file, and is not searched",
                    given.unwrap_or(".")
                )));
            }
        }
        Ok(search.finish())
    }
}

impl Grep {
    fn matcher(&self) -> Result<RegexMatcher> {
        patterns::measure_regex(&self.pattern)
            .map_err(|problem| Error::invalid("pattern", format!("`pattern` {problem}")))?;
        RegexMatcherBuilder::new()
            .case_insensitive(self.ignore_case)
            .fixed_strings(self.literal)
            .multi_line(true)
            .line_terminator(Some(b'\n'))
            .size_limit(patterns::MAX_REGEX_MEMORY)
            .dfa_size_limit(patterns::MAX_REGEX_MEMORY)
            .build(&self.pattern)
            .map_err(|error| {
                Error::invalid(
                    "pattern",
                    format!("`pattern` cannot be searched for: {error}"),
                )
                .with_hint("give a regular expression for one line, or set `literal`")
            })
    }

    fn overrides(&self) -> Result<Override> {
        patterns::overrides(self.include.as_deref(), self.exclude.as_deref())
            .map_err(|(field, problem)| Error::invalid(field, format!("`{field}` {problem}")))
    }
}

/// A search and what it has found.
struct Search<'a> {
    side: &'a HostSide,
    matcher: RegexMatcher,
    searcher: Searcher,
    most: u64,
    with_context: bool,
    shown_start: PathBuf,
    matches: u64,
    text: BoundedText,
    truncated: bool,
    unreadable: u64,
    /// Says that not every ignore file counted.
    ignore_note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Searched {
    Text,
    Binary,
}

impl Search<'_> {
    /// Searches one file.
    fn file(&mut self, file: &File, shown: &Path) -> Result<Searched> {
        let mut lines = FileLines {
            // A newline in a name would pass for a line of its own.
            path: shown_path(shown),
            text: String::new(),
            room: self.text.room(),
            matches: 0,
            most: self.most - self.matches,
            more: false,
            binary: false,
        };
        let mut reader = CancellableFile {
            file,
            side: self.side,
            stopped: None,
        };
        let outcome = self
            .searcher
            .search_reader(&self.matcher, &mut reader, &mut lines);
        if let Some(stopped) = reader.stopped {
            return Err(stopped);
        }
        if outcome.is_err() {
            self.unreadable += 1;
        }
        if lines.binary {
            return Ok(Searched::Binary);
        }
        self.truncated |= lines.more;
        if lines.matches == 0 {
            return Ok(Searched::Text);
        }
        if self.with_context && !self.text.is_empty() {
            lines.text.insert_str(0, "--\n");
        }
        self.matches += lines.matches;
        // It fits, but for the line that parts two files.
        if self.text.push(&lines.text) {
            self.side.tell(&lines.text);
        } else {
            self.truncated = true;
        }
        Ok(Searched::Text)
    }

    fn finish(self) -> Outcome {
        let mut notes = Vec::new();
        if self.truncated {
            notes.push(format!(
                "there are more matches than these {}; narrow the search, or raise `max_results`",
                self.matches
            ));
        }
        if self.matches == 0 && !self.truncated {
            notes.push("no matches".to_owned());
        }
        if self.unreadable > 0 {
            notes.push(format!("{} files could not be searched", self.unreadable));
        }
        notes.extend(self.ignore_note);
        let note = (!notes.is_empty()).then(|| notes.join("; ").into());
        Outcome {
            content: self.text.with_note(note),
            truncated: self.truncated,
            ..Outcome::default()
        }
    }
}

/// Goes through directories and searches the files that count.
struct SearchWalk<'a, 'b> {
    search: &'b mut Search<'a>,
    rules: IgnoreRules,
}

impl Visitor for SearchWalk<'_, '_> {
    fn enter(&mut self, directory: BorrowedFd<'_>, path: &Path) -> Result<()> {
        self.rules.enter(self.search.side, directory, path)
    }

    fn leave(&mut self) {
        self.rules.leave();
    }

    fn visit(&mut self, entry: &WalkEntry<'_>) -> Result<Step> {
        self.search.side.check()?;
        if self.search.truncated {
            return Ok(Step::Stop);
        }
        if !matches!(entry.kind, FileType::Directory | FileType::RegularFile)
            || self.rules.ignores(entry)
        {
            return Ok(Step::Over);
        }
        if entry.kind == FileType::Directory {
            return Ok(Step::Into);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(entry.directory, entry.name, flags, Mode::empty())
            .and_then(|found| open_regular(&found))
        {
            Ok(Some((file, _))) => {
                let shown = self.search.shown_start.join(entry.path);
                self.search.file(&file, &shown)?;
            }
            // It has become something else, or has gone.
            Ok(None) | Err(rustix::io::Errno::NOENT) => {}
            Err(_) => self.search.unreadable += 1,
        }
        Ok(Step::Over)
    }
}

/// Reads a file until the call is cancelled or its deadline passes.
struct CancellableFile<'a> {
    file: &'a File,
    side: &'a HostSide,
    stopped: Option<Error>,
}

impl Read for CancellableFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Err(error) = self.side.check() {
            self.stopped = Some(error);
            return Err(std::io::Error::other("stopped"));
        }
        self.file.read(buffer)
    }
}

/// The lines of one file that are shown.
struct FileLines {
    path: String,
    text: String,
    /// Bytes of text that still fit into the answer.
    room: usize,
    matches: u64,
    most: u64,
    /// There is a match that is not shown.
    more: bool,
    binary: bool,
}

impl FileLines {
    /// Adds a line, and says whether there was room for it.
    fn line(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) -> bool {
        let line = format!(
            "{}{mark}{}{mark}{}\n",
            self.path,
            number.unwrap_or(0),
            clip(bytes)
        );
        let fits = self.text.len() + line.len() <= self.room;
        if fits {
            self.text.push_str(&line);
        } else {
            self.more = true;
        }
        fits
    }
}

impl Sink for FileLines {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if self.matches == self.most {
            self.more = true;
            return Ok(false);
        }
        let fits = self.line(':', found.line_number(), found.bytes());
        self.matches += u64::from(fits);
        Ok(fits)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        Ok(self.line('-', context.line_number(), context.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.text.push_str("--\n");
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), Self::Error> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}
