//! Operations at random: mostly sensible ones, and now and then one that has to be refused.

use fastrand::Rng;

use crate::{
    model::{BARE, Model, SEEDED, Session},
    operation::{Operation, ToolUse},
    shell::Action,
};

/// Few names, so that operations meet: files and directories, some of them in the base, some both
/// at different times.
const PATHS: [&str; 9] = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f/g", "a/x"];
/// Only shell commands touch this one: tools would follow it.
const LINK: &str = "l";
const WORDS: [&str; 4] = ["one", "two", "three", "four"];
const IDS: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];
const NAMES: [&str; 6] = ["x", "y", "z", "turn-0002", "turn-0003", "tool-x"];
const LABELS: [(&str, &str); 4] = [
    ("team", "red"),
    ("team", "blue"),
    ("kind", "test"),
    ("kind", ""),
];
/// Permission bits that let the owner do everything: what others may is not the model's business.
const MODES: [u32; 3] = [0o700, 0o755, 0o740];

/// One kind of step, how often it comes, and how it is made.
type Choice = (u32, fn(&mut Generator<'_>) -> Operation);

const CHOICES: [Choice; 22] = [
    (6, |g| g.create()),
    (3, |g| Operation::Destroy { id: g.id() }),
    (2, |g| Operation::Get { id: g.id() }),
    (3, |g| g.list()),
    (20, |g| g.write()),
    (3, |g| g.of_file(|id, path| Operation::Read { id, path })),
    (2, |g| Operation::Stat {
        id: g.id(),
        path: g.path_or_link(),
    }),
    (2, |g| Operation::ListDirectory {
        id: g.id(),
        path: g.one_of(&["", "d", "d/e", "a"]),
    }),
    (16, |g| Operation::Exec {
        id: g.id(),
        action: g.action(),
    }),
    (12, |g| g.tool()),
    (6, |g| Operation::CompleteTurn { id: g.id() }),
    (8, |g| g.take_snapshot()),
    (2, |g| Operation::ListSnapshots { id: g.id() }),
    (4, |g| {
        g.of_snapshot(|id, name| Operation::DeleteSnapshot { id, name })
    }),
    (9, |g| g.diff()),
    (8, |g| g.roll_back()),
    (5, |g| g.fork()),
    (3, |g| Operation::Pause { id: g.id() }),
    (3, |g| g.resume()),
    (2, |g| Operation::Hibernate { id: g.id() }),
    (3, |g| Operation::Wake {
        id: g.id_of(Session::is_hibernated),
    }),
    (1, |_| Operation::Restart),
];

/// Makes the next step of a sequence.
pub(crate) struct Generator<'a> {
    pub(crate) random: &'a mut Rng,
    pub(crate) model: &'a Model,
    /// Makes symbols that no other step uses.
    pub(crate) step: usize,
}

impl<'a> Generator<'a> {
    pub(crate) fn next(&mut self) -> Operation {
        // Without a session there is little to do.
        if self.model.sessions().is_empty() && self.random.u8(..) > 20 {
            return self.create();
        }
        let tickets: u32 = CHOICES.iter().map(|(weight, _)| weight).sum();
        let mut ticket = self.random.u32(..tickets);
        for (weight, make) in CHOICES {
            if ticket < weight {
                return make(self);
            }
            ticket -= weight;
        }
        unreachable!("a ticket is below the sum of weights")
    }

    fn create(&mut self) -> Operation {
        let id = if self.once_in(4) {
            format!("?{}", self.step)
        } else {
            self.one_of(&IDS).to_owned()
        };
        let base = match self.random.u8(..20) {
            0 => "no-such-base",
            1..=2 => BARE,
            _ => SEEDED,
        };
        Operation::Create {
            id,
            base,
            labels: self.labels(),
        }
    }

    fn list(&mut self) -> Operation {
        Operation::List {
            label: self.once_in(2).then(|| self.one_of(&LABELS)),
            state: self
                .once_in(3)
                .then(|| self.one_of(&["active", "paused", "hibernated"])),
            page: self.one_of(&[0, 0, 1, 1, 2, 3, 1000, 1001]),
            token: self.once_in(12).then_some("not a token"),
        }
    }

    fn write(&mut self) -> Operation {
        Operation::Write {
            id: self.id(),
            path: self.path(),
            content: self.text(),
            mode: self.once_in(5).then(|| self.one_of(&MODES)),
            create_dirs: !self.once_in(6),
        }
    }

    fn tool(&mut self) -> Operation {
        let id = self.id();
        let earlier = self
            .session(&id)
            .map(Session::call_names)
            .unwrap_or_default();
        let call = match self.random.choice(earlier) {
            Some(call) if self.once_in(5) => call.to_owned(),
            _ => format!("call/{}", self.step),
        };
        let tool = match self.random.u8(..20) {
            0 => ToolUse::Unknown,
            1..=6 => ToolUse::WriteFile {
                path: self.path(),
                content: self.text(),
            },
            7..=13 => {
                let path = self.file_of(&id);
                ToolUse::EditFile {
                    path,
                    old: self.one_of(&WORDS),
                    new: self.one_of(&["one", "five", "six", ""]),
                }
            }
            _ => ToolUse::Bash {
                action: self.action(),
            },
        };
        Operation::Tool {
            id,
            call,
            tool,
            snapshot: format!("?{}", self.step),
        }
    }

    fn take_snapshot(&mut self) -> Operation {
        let name = if self.once_in(3) {
            format!("?{}", self.step)
        } else {
            self.one_of(&NAMES).to_owned()
        };
        Operation::TakeSnapshot {
            id: self.id(),
            name,
        }
    }

    fn diff(&mut self) -> Operation {
        let two = self.once_in(2);
        let mut operation = self.of_snapshot(|id, from| Operation::Diff { id, from, to: None });
        if let Operation::Diff { id, to, .. } = &mut operation
            && two
        {
            *to = Some(self.snapshot_of(id));
        }
        operation
    }

    fn roll_back(&mut self) -> Operation {
        let keep_later = self.random.bool();
        self.of_snapshot(|id, name| Operation::RollBack {
            id,
            name,
            keep_later,
        })
    }

    fn resume(&mut self) -> Operation {
        Operation::Resume {
            id: self.id_of(Session::is_paused),
        }
    }

    fn fork(&mut self) -> Operation {
        let id = self.id_with_snapshots();
        let from = self.random.bool().then(|| self.snapshot_of(&id));
        let count = self.one_of(&[1, 1, 1, 2, 2, 3]);
        let (count, ids) = match self.random.u8(..12) {
            0 => (self.one_of(&[0, 1001]), Vec::new()),
            // More names than copies.
            1 => (count, vec![self.one_of(&IDS).to_owned(); count + 1]),
            2..=6 => (
                count,
                (0..count)
                    .map(|copy| format!("?{}.{copy}", self.step))
                    .collect(),
            ),
            _ => (
                count,
                (0..count).map(|_| self.one_of(&IDS).to_owned()).collect(),
            ),
        };
        Operation::Fork {
            id,
            from,
            count,
            ids,
            labels: self.labels(),
        }
    }

    fn action(&mut self) -> Action {
        match self.random.u8(..16) {
            0..=2 => Action::Append {
                path: self.path(),
                text: self.text(),
            },
            3..=4 => Action::Overwrite {
                path: self.path(),
                text: self.text(),
            },
            5..=7 => Action::Remove {
                path: self.path_or_link(),
            },
            8..=9 => Action::MakeDirectory { path: self.path() },
            10..=12 => Action::Move {
                from: self.path(),
                to: self.path(),
            },
            13 => Action::ChangeMode {
                path: self.path(),
                mode: self.one_of(&MODES),
            },
            14 => Action::Link {
                target: self.one_of(&["a", "nowhere"]),
                path: LINK,
            },
            _ => Action::Show { path: self.path() },
        }
    }

    /// A session: mostly one there is, and most of all the oldest, so that it comes to something.
    fn id(&mut self) -> String {
        let sessions = self.model.sessions();
        match if self.random.bool() {
            sessions.first()
        } else {
            self.random.choice(sessions)
        } {
            Some(session) if !self.once_in(14) => session.id.clone(),
            _ => self.one_of(&IDS).to_owned(),
        }
    }

    /// A session: mostly one for which `fits` holds.
    fn id_of(&mut self, fits: fn(&Session) -> bool) -> String {
        let fitting: Vec<&Session> = self
            .model
            .sessions()
            .iter()
            .filter(|session| fits(session))
            .collect();
        match self.random.choice(fitting) {
            Some(session) if !self.once_in(5) => session.id.clone(),
            _ => self.id(),
        }
    }

    fn id_with_snapshots(&mut self) -> String {
        self.id_of(|session| !session.snapshot_names().is_empty())
    }

    /// A snapshot of a session: mostly one there is.
    fn snapshot_of(&mut self, id: &str) -> String {
        let names = self
            .session(id)
            .map(Session::snapshot_names)
            .unwrap_or_default();
        match self.random.choice(names) {
            Some(name) if !self.once_in(10) => name.to_owned(),
            _ => self.one_of(&NAMES).to_owned(),
        }
    }

    /// Generates an operation on a snapshot; mostly takes one first if there is none.
    fn of_snapshot(&mut self, make: impl FnOnce(String, String) -> Operation) -> Operation {
        if self
            .model
            .sessions()
            .iter()
            .all(|session| session.snapshot_names().is_empty())
            && !self.once_in(4)
        {
            return self.take_snapshot();
        }
        let id = self.id_with_snapshots();
        let name = self.snapshot_of(&id);
        make(id, name)
    }

    /// A file of a session: mostly one there is.
    fn file_of(&mut self, id: &str) -> &'static str {
        let files: Option<Vec<_>> = self.session(id).map(|session| {
            PATHS
                .into_iter()
                .filter(|path| session.has_file(path))
                .collect()
        });
        match self.random.choice(files.unwrap_or_default()) {
            Some(path) if !self.once_in(4) => path,
            _ => self.path(),
        }
    }

    fn of_file(&mut self, make: impl FnOnce(String, &'static str) -> Operation) -> Operation {
        let id = self.id();
        let path = self.file_of(&id);
        make(id, path)
    }

    fn session(&self, id: &str) -> Option<&'a Session> {
        self.model
            .sessions()
            .iter()
            .find(|session| session.id == id)
    }

    fn labels(&mut self) -> Vec<(&'static str, &'static str)> {
        let mut labels: Vec<_> = (0..self.random.usize(..3))
            .map(|_| self.one_of(&LABELS))
            .collect();
        if self.once_in(25) {
            labels.push(("", "a label without a name"));
        }
        labels
    }

    fn path(&mut self) -> &'static str {
        self.one_of(&PATHS)
    }

    fn path_or_link(&mut self) -> &'static str {
        if self.once_in(4) { LINK } else { self.path() }
    }

    /// A few words, one a line.
    fn text(&mut self) -> String {
        (0..self.random.usize(..4))
            .flat_map(|_| [self.one_of(&WORDS), "\n"])
            .collect()
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(..choices.len())]
    }

    fn once_in(&mut self, times: u8) -> bool {
        self.random.u8(..times) == 0
    }
}
