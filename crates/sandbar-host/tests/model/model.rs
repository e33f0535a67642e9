//! The reference: what a host has to do, in plain maps and lists.

use std::collections::{BTreeMap, BTreeSet};

use sandbar_core::ErrorCode;

use crate::{
    operation::{Operation, ToolUse},
    outcome::{Answer, EntryView, Outcome, Refusal, SessionView, SnapshotView, ToolView, World},
    tree::{DIRECTORY_MODE, Tree},
};

/// The base with programs and a few files in `/workspace`, and the one with neither.
pub(crate) const SEEDED: &str = "seeded";
pub(crate) const BARE: &str = "bare";

/// Configuration of the host under test.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) max_sessions: usize,
    pub(crate) max_snapshots: usize,
    pub(crate) tool_snapshots: bool,
    pub(crate) can_pause: bool,
    pub(crate) can_keep_later: bool,
}

/// Sessions, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    rules: Rules,
    sessions: Vec<Session>,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    state: State,
    base: &'static str,
    labels: BTreeMap<String, String>,
    turns: u64,
    parent: Option<(String, Option<String>)>,
    files: Tree,
    /// Oldest first.
    snapshots: Vec<Snapshot>,
    /// The snapshot that the files derive from.
    head: Option<String>,
    /// Answers of tool calls, by the name of the call.
    calls: BTreeMap<String, ToolView>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Active,
    Paused,
    Hibernated,
}

#[derive(Clone, Debug)]
struct Snapshot {
    view: SnapshotView,
    files: Tree,
}

/// Files in `/workspace` of a base.
pub(crate) fn base_files(base: &str) -> Tree {
    let file = |content: &str| EntryView::File {
        mode: 0o644,
        content: content.to_owned(),
    };
    let directory = || EntryView::Directory {
        mode: DIRECTORY_MODE,
    };
    match base {
        SEEDED => Tree::new([
            ("a", file("one\ntwo\n")),
            ("d", directory()),
            ("d/a", file("three\n")),
            ("d/e", directory()),
            ("d/e/a", file("one one\n")),
        ]),
        _ => Tree::default(),
    }
}

impl Model {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            sessions: Vec::new(),
        }
    }

    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// Does one step.
    pub(crate) fn apply(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Create { id, base, labels } => self.create(id, base, labels),
            Operation::Destroy { id } => {
                self.session(id)?;
                self.sessions.retain(|session| session.id != *id);
                Ok(Outcome::Done)
            }
            Operation::Get { id } => self
                .session(id)
                .map(|session| Outcome::Session(session.view())),
            Operation::List {
                label,
                state,
                page,
                token,
            } => self.list(*label, *state, *page, *token),
            Operation::Write {
                id,
                path,
                content,
                mode,
                create_dirs,
            } => {
                self.active(id)?
                    .files
                    .write(path, content, *mode, *create_dirs)?;
                Ok(Outcome::Done)
            }
            Operation::Read { id, path } => Ok(Outcome::Content(
                self.present(id)?.files.read(path)?.to_owned(),
            )),
            Operation::Stat { id, path } => self.present(id)?.files.stat(path).map(Outcome::Entry),
            Operation::ListDirectory { id, path } => {
                self.present(id)?.files.list(path).map(Outcome::Entries)
            }
            Operation::Exec { id, action } => {
                let session = self.active(id)?;
                if session.base != SEEDED {
                    return Err(Refusal::of(ErrorCode::FileNotFound, "argv"));
                }
                let output = session.files.act(action);
                Ok(Outcome::Command {
                    succeeded: output.is_some(),
                    output: output.unwrap_or_default(),
                })
            }
            Operation::Tool {
                id,
                call,
                tool,
                snapshot,
            } => self.tool(id, call, tool, snapshot),
            Operation::CompleteTurn { id } => self.complete_turn(id),
            Operation::TakeSnapshot { id, name } => {
                let limit = self.rules.max_snapshots;
                let session = self.present(id)?;
                if session.has_snapshot(name) {
                    return Err(Refusal::of(ErrorCode::SnapshotExists, "snapshot"));
                }
                Ok(Outcome::Snapshot(
                    session.take_snapshot(name, "named", limit),
                ))
            }
            Operation::ListSnapshots { id } => {
                Ok(Outcome::Snapshots(self.session(id)?.snapshot_views()))
            }
            Operation::DeleteSnapshot { id, name } => {
                let session = self.present(id)?;
                session.snapshot(name)?;
                session.remove_snapshot(name);
                Ok(Outcome::Done)
            }
            Operation::Diff { id, from, to } => {
                let session = self.present(id)?;
                let from = &session.snapshot(from)?.files;
                let to = to.as_ref().map_or(Ok(&session.files), |to| {
                    session.snapshot(to).map(|to| &to.files)
                })?;
                Ok(Outcome::Changes(from.diff(to)))
            }
            Operation::RollBack {
                id,
                name,
                keep_later,
            } => self.roll_back(id, name, *keep_later),
            Operation::Fork {
                id,
                from,
                count,
                ids,
                labels,
            } => self.fork(id, from.as_deref(), *count, ids, labels),
            Operation::Pause { id } => {
                let can_pause = self.rules.can_pause;
                self.active(id)?;
                if can_pause {
                    self.enter(id, State::Paused)
                } else {
                    Err(Refusal::new(ErrorCode::InvalidState))
                }
            }
            Operation::Resume { id } => self.leave(id, State::Paused),
            Operation::Hibernate { id } => {
                self.present(id)?;
                self.enter(id, State::Hibernated)
            }
            Operation::Wake { id } => self.leave(id, State::Hibernated),
            Operation::Restart => Ok(Outcome::Done),
        }
    }

    fn enter(&mut self, id: &str, state: State) -> Answer {
        let session = self.session_mut(id)?;
        session.state = state;
        Ok(Outcome::Session(session.view()))
    }

    /// A session that comes back is active, whatever it was before.
    fn leave(&mut self, id: &str, state: State) -> Answer {
        if self.session(id)?.state != state {
            return Err(Refusal::new(ErrorCode::InvalidState));
        }
        self.enter(id, State::Active)
    }

    /// Everything there is.
    pub(crate) fn world(&self) -> World {
        let each = || self.sessions.iter();
        let here = || each().filter(|session| !session.is_hibernated());
        let names = |session: &Session| {
            session
                .snapshots
                .iter()
                .map(|snapshot| snapshot.view.name.clone())
                .collect()
        };
        World {
            sessions: each().map(Session::view).collect(),
            snapshots: each()
                .map(|session| (session.id.clone(), session.snapshot_views()))
                .collect(),
            files: here()
                .map(|session| (session.id.clone(), session.files.entries().clone()))
                .collect(),
            volumes: here()
                .map(|session| (session.id.clone(), names(session)))
                .collect(),
        }
    }

    fn create(&mut self, id: &str, base: &'static str, labels: &[(&str, &str)]) -> Answer {
        require_labels(labels)?;
        self.reserve(&[id])?;
        if ![SEEDED, BARE].contains(&base) {
            return Err(Refusal::of(ErrorCode::BaseNotFound, "base_snapshot"));
        }
        let session = Session::new(id, base, collect(labels), base_files(base));
        let view = session.view();
        self.sessions.push(session);
        Ok(Outcome::Session(view))
    }

    fn fork(
        &mut self,
        id: &str,
        from: Option<&str>,
        count: usize,
        ids: &[String],
        labels: &[(&str, &str)],
    ) -> Answer {
        if !(1..=1000).contains(&count) {
            return Err(Refusal::invalid("count"));
        }
        if ids.len() != count {
            return Err(Refusal::invalid("ids"));
        }
        require_labels(labels)?;
        let source = self.present(id)?;
        let files = from
            .map_or(Ok(&source.files), |from| {
                source.snapshot(from).map(|from| &from.files)
            })?
            .clone();
        let mut all_labels = source.labels.clone();
        all_labels.extend(collect(labels));
        let base = source.base;
        self.reserve(&ids.iter().map(String::as_str).collect::<Vec<_>>())?;
        let copies = ids.iter().map(|copy| Session {
            parent: Some((id.to_owned(), from.map(str::to_owned))),
            ..Session::new(copy, base, all_labels.clone(), files.clone())
        });
        let copies: Vec<Session> = copies.collect();
        let views = copies.iter().map(Session::view).collect();
        self.sessions.extend(copies);
        Ok(Outcome::Sessions(views))
    }

    fn reserve(&self, ids: &[&str]) -> Result<(), Refusal> {
        if self.rules.max_sessions > 0 && self.sessions.len() + ids.len() > self.rules.max_sessions
        {
            return Err(Refusal::new(ErrorCode::MaxSessionsReached));
        }
        let taken = |id: &str| self.sessions.iter().any(|session| session.id == id);
        let twice = ids.iter().collect::<BTreeSet<_>>().len() < ids.len();
        if twice || ids.iter().any(|id| taken(id)) {
            return Err(Refusal::of(ErrorCode::SessionExists, "session_id"));
        }
        Ok(())
    }

    fn list(
        &self,
        label: Option<(&str, &str)>,
        state: Option<&str>,
        page: usize,
        token: Option<&str>,
    ) -> Answer {
        if page > 1000 {
            return Err(Refusal::invalid("page_size"));
        }
        if token.is_some() {
            return Err(Refusal::invalid("page_token"));
        }
        let matching: Vec<SessionView> = self
            .sessions
            .iter()
            .map(Session::view)
            .filter(|view| state.is_none_or(|state| view.state == state))
            .filter(|view| {
                label
                    .is_none_or(|(key, value)| view.labels.get(key).is_some_and(|has| has == value))
            })
            .collect();
        let pages: Vec<Vec<SessionView>> = matching
            .chunks(if page == 0 { 100 } else { page })
            .map(<[SessionView]>::to_vec)
            .collect();
        // A listing of nothing is one empty page.
        Ok(Outcome::Pages(if pages.is_empty() {
            vec![Vec::new()]
        } else {
            pages
        }))
    }

    fn complete_turn(&mut self, id: &str) -> Answer {
        let limit = self.rules.max_snapshots;
        let session = self.active(id)?;
        let name = loop {
            session.turns += 1;
            let name = format!("turn-{:04}", session.turns);
            if !session.has_snapshot(&name) {
                break name;
            }
        };
        Ok(Outcome::Snapshot(
            session.take_snapshot(&name, "turn", limit),
        ))
    }

    fn roll_back(&mut self, id: &str, name: &str, keep_later: bool) -> Answer {
        let can_keep = self.rules.can_keep_later;
        let session = self.session_mut(id)?;
        let target = session.snapshot(name)?.files.clone();
        if session.is_hibernated() {
            return Err(Refusal::new(ErrorCode::SessionPaused));
        }
        if keep_later && !can_keep {
            return Err(Refusal::invalid("keep_later"));
        }
        if !keep_later {
            let after = session
                .snapshots
                .iter()
                .skip_while(|snapshot| snapshot.view.name != name)
                .skip(1);
            for later in after
                .map(|snapshot| snapshot.view.name.clone())
                .collect::<Vec<_>>()
            {
                session.remove_snapshot(&later);
            }
        }
        session.files = target;
        session.head = Some(name.to_owned());
        Ok(Outcome::Session(session.view()))
    }

    fn tool(&mut self, id: &str, call: &str, tool: &ToolUse, snapshot: &str) -> Answer {
        match tool {
            ToolUse::Unknown => return Err(Refusal::invalid("tool_name")),
            ToolUse::EditFile { old, new, .. } if old == new => {
                return Err(Refusal::invalid("new_string"));
            }
            ToolUse::WriteFile { .. } | ToolUse::EditFile { .. } | ToolUse::Bash { .. } => {}
        }
        if let Some(answer) = self.session(id)?.calls.get(call) {
            return Ok(Outcome::Tool(ToolView {
                repeated: true,
                ..answer.clone()
            }));
        }
        let rules = self.rules.clone();
        let session = self.active(id)?;
        let content = session.run_tool(tool);
        let is_error = content.is_none();
        let mut answer = ToolView {
            is_error,
            content,
            repeated: false,
            snapshot: None,
        };
        if rules.tool_snapshots && !is_error {
            session.take_snapshot(snapshot, "tool", rules.max_snapshots);
            answer.snapshot = Some(snapshot.to_owned());
        }
        session.calls.insert(call.to_owned(), answer.clone());
        Ok(Outcome::Tool(answer))
    }

    fn session(&self, id: &str) -> Result<&Session, Refusal> {
        self.sessions
            .iter()
            .find(|session| session.id == id)
            .ok_or_else(no_session)
    }

    fn session_mut(&mut self, id: &str) -> Result<&mut Session, Refusal> {
        self.sessions
            .iter_mut()
            .find(|session| session.id == id)
            .ok_or_else(no_session)
    }

    /// A session whose volume is here.
    fn present(&mut self, id: &str) -> Result<&mut Session, Refusal> {
        let session = self.session_mut(id)?;
        if session.is_hibernated() {
            Err(Refusal::new(ErrorCode::SessionPaused))
        } else {
            Ok(session)
        }
    }

    /// A session whose clock runs.
    fn active(&mut self, id: &str) -> Result<&mut Session, Refusal> {
        let session = self.present(id)?;
        if session.is_paused() {
            Err(Refusal::new(ErrorCode::SessionPaused))
        } else {
            Ok(session)
        }
    }
}

impl Session {
    fn new(id: &str, base: &'static str, labels: BTreeMap<String, String>, files: Tree) -> Self {
        Self {
            id: id.to_owned(),
            state: State::Active,
            base,
            labels,
            turns: 0,
            parent: None,
            files,
            snapshots: Vec::new(),
            head: None,
            calls: BTreeMap::new(),
        }
    }

    pub(crate) fn snapshot_names(&self) -> Vec<&str> {
        self.snapshots
            .iter()
            .map(|snapshot| snapshot.view.name.as_str())
            .collect()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.state == State::Paused
    }

    pub(crate) fn is_hibernated(&self) -> bool {
        self.state == State::Hibernated
    }

    pub(crate) fn has_file(&self, path: &str) -> bool {
        self.files.read(path).is_ok()
    }

    pub(crate) fn call_names(&self) -> Vec<&str> {
        self.calls.keys().map(String::as_str).collect()
    }

    fn view(&self) -> SessionView {
        SessionView {
            id: self.id.clone(),
            state: match self.state {
                State::Active => "active",
                State::Paused => "paused",
                State::Hibernated => "hibernated",
            }
            .to_owned(),
            base: self.base.to_owned(),
            labels: self.labels.clone(),
            turns: self.turns,
            snapshots: self.snapshots.len() as u64,
            parent: self.parent.clone(),
        }
    }

    fn snapshot_views(&self) -> Vec<SnapshotView> {
        self.snapshots
            .iter()
            .map(|snapshot| snapshot.view.clone())
            .collect()
    }

    fn has_snapshot(&self, name: &str) -> bool {
        self.snapshot(name).is_ok()
    }

    fn snapshot(&self, name: &str) -> Result<&Snapshot, Refusal> {
        let found = self
            .snapshots
            .iter()
            .find(|snapshot| snapshot.view.name == name);
        found.ok_or_else(|| Refusal::of(ErrorCode::SnapshotNotFound, "snapshot"))
    }

    /// Takes a snapshot, and prunes the oldest unnamed ones beyond the limit; zero is no limit.
    fn take_snapshot(&mut self, name: &str, kind: &str, limit: usize) -> SnapshotView {
        let view = SnapshotView {
            name: name.to_owned(),
            kind: kind.to_owned(),
            parent: self.head.clone(),
        };
        self.snapshots.push(Snapshot {
            view: view.clone(),
            files: self.files.clone(),
        });
        self.head = Some(name.to_owned());
        let excess = if limit == 0 {
            0
        } else {
            self.snapshots.len().saturating_sub(limit)
        };
        let unnamed = self
            .snapshots
            .iter()
            .filter(|snapshot| snapshot.view.kind != "named")
            .take(excess);
        for old in unnamed
            .map(|snapshot| snapshot.view.name.clone())
            .collect::<Vec<_>>()
        {
            self.remove_snapshot(&old);
        }
        view
    }

    /// Deletes a snapshot; its children move to its parent.
    fn remove_snapshot(&mut self, name: &str) {
        let Some(place) = self
            .snapshots
            .iter()
            .position(|snapshot| snapshot.view.name == name)
        else {
            return;
        };
        let parent = self.snapshots.remove(place).view.parent;
        let standing = self
            .snapshots
            .iter_mut()
            .map(|snapshot| &mut snapshot.view.parent)
            .chain([&mut self.head]);
        for base_in_use in standing.filter(|base_in_use| base_in_use.as_deref() == Some(name)) {
            base_in_use.clone_from(&parent);
        }
    }

    /// Returns the expected output of a successful tool.
    fn run_tool(&mut self, tool: &ToolUse) -> Option<String> {
        match tool {
            ToolUse::Unknown => None,
            ToolUse::WriteFile { path, content } => {
                let what = if self.files.write(path, content, None, true).ok()? {
                    "replaced"
                } else {
                    "made"
                };
                Some(format!("{what} `{path}`: {} bytes", content.len()))
            }
            ToolUse::EditFile { path, old, new } => {
                let content = self.files.read(path).ok()?;
                let [(place, _)] = content.match_indices(old).collect::<Vec<_>>()[..] else {
                    return None;
                };
                let line = content[..place].matches('\n').count() + 1;
                let edited = content.replacen(old, new, 1);
                self.files.write(path, &edited, None, false).ok()?;
                Some(format!("edited `{path}`: replaced once, at line {line}"))
            }
            ToolUse::Bash { action } => {
                if self.base == SEEDED {
                    self.files.act(action)
                } else {
                    None
                }
            }
        }
    }
}

fn no_session() -> Refusal {
    Refusal::of(ErrorCode::SessionNotFound, "session_id")
}

fn require_labels(labels: &[(&str, &str)]) -> Result<(), Refusal> {
    if labels.iter().any(|(key, _)| key.is_empty()) {
        Err(Refusal::invalid("labels"))
    } else {
        Ok(())
    }
}

fn collect(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}
