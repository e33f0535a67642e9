//! The same operations on the real host, and what came of them in the model's words.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::Read as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sandbar_core::{
    Aspect, BaseName, Change, EntryType, Error, ExecEvent, ExecSpec, FileStat, ForkRequest,
    LaterSnapshots, PageRequest, Quiesce, Resources, Result, SessionFilter, SessionId, SessionInfo,
    SessionSpec, SessionState, SnapshotInfo, SnapshotName, ToolCallId, ToolRequest, ToolResponse,
    WriteOptions,
};
use serde_json::{Value, json};

use crate::{
    machine::Machine,
    operation::{Operation, ToolUse, is_generated},
    outcome::{
        Answer, ChangeView, EntryView, Outcome, Refusal, SessionView, SnapshotView, ToolView, World,
    },
    shell::Action,
};

const WORKSPACE: &str = "/workspace";

/// Runs one sequence on a machine.
pub(crate) struct Driver<'a> {
    machine: &'a mut Machine,
    /// Names the host made up, by their symbols, and the other way round.
    names: HashMap<String, String>,
    symbols: HashMap<String, String>,
    /// Answers of tool calls, by session and call.
    answers: HashMap<(String, String), ToolResponse>,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(machine: &'a mut Machine) -> Self {
        Self {
            machine,
            names: HashMap::new(),
            symbols: HashMap::new(),
            answers: HashMap::new(),
        }
    }

    /// Does one step.
    pub(crate) async fn perform(&mut self, operation: &Operation) -> Answer {
        self.attempt(operation).await.map_err(|error| Refusal {
            code: error.code(),
            field: error.field().map(str::to_owned),
        })
    }

    /// Everything there is.
    pub(crate) async fn world(&self) -> Result<World> {
        let host = self.machine.host();
        let mut world = World::default();
        for info in host
            .list_sessions(&SessionFilter::default(), &PageRequest::default())
            .await?
            .items
        {
            let (id, symbol) = (info.id.clone(), self.symbol(info.id.as_str()));
            let snapshots = host
                .list_snapshots(&id)
                .await?
                .iter()
                .map(|info| self.snapshot(info))
                .collect();
            world.snapshots.insert(symbol.clone(), snapshots);
            if info.state != SessionState::Hibernated {
                world
                    .files
                    .insert(symbol, self.list(&id, "", 10).await?.into_iter().collect());
            }
            world.sessions.push(self.session(&info));
        }
        let storage = self.machine.storage();
        for volume in storage.volumes()? {
            let snapshots = storage.snapshots(&volume)?;
            let names = snapshots
                .iter()
                .map(|snapshot| self.symbol(snapshot.name.as_str()))
                .collect();
            world.volumes.insert(self.symbol(volume.as_str()), names);
        }
        Ok(world)
    }

    /// Leaves nothing for the next sequence.
    pub(crate) async fn clear(&mut self) -> Result<()> {
        let host = self.machine.host();
        for info in host
            .list_sessions(&SessionFilter::default(), &PageRequest::default())
            .await?
            .items
        {
            host.destroy_session(&info.id).await?;
        }
        let left = self.machine.storage().volumes()?;
        if left.is_empty() {
            Ok(())
        } else {
            Err(Error::internal(format!("volumes are left: {left:?}")))
        }
    }

    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    async fn attempt(&mut self, operation: &Operation) -> Result<Outcome> {
        let host = self.machine.host().clone();
        match operation {
            Operation::Create { id, base, labels } => {
                let mut spec = SessionSpec::new(BaseName::new(*base)?);
                spec.id = if is_generated(id) {
                    None
                } else {
                    Some(self.id(id))
                };
                spec.labels = owned(labels);
                let info = host.create_session(spec).await?;
                self.learn(id, info.id.as_str());
                Ok(Outcome::Session(self.session(&info)))
            }
            Operation::Destroy { id } => {
                host.destroy_session(&self.id(id)).await?;
                self.answers.retain(|(session, _), _| session != id);
                Ok(Outcome::Done)
            }
            Operation::Get { id } => Ok(Outcome::Session(
                self.session(&host.get_session(&self.id(id)).await?),
            )),
            Operation::List {
                label,
                state,
                page,
                token,
            } => {
                let (labels, state) = (owned(label.as_slice()), state.map(str::parse).transpose()?);
                let filter = SessionFilter {
                    labels,
                    state,
                    ..SessionFilter::default()
                };
                self.pages(&filter, *page, *token).await
            }
            Operation::Write {
                id,
                path,
                content,
                mode,
                create_dirs,
            } => {
                let options = WriteOptions {
                    mode: *mode,
                    create_dirs: *create_dirs,
                    owner: None,
                };
                let mut writer = host
                    .write_file(&self.id(id), Path::new(path), options)
                    .await?;
                writer
                    .write(Bytes::copy_from_slice(content.as_bytes()))
                    .await?;
                writer.commit().await?;
                Ok(Outcome::Done)
            }
            Operation::Read { id, path } => self
                .read(&self.id(id), Path::new(path))
                .await
                .map(Outcome::Content),
            Operation::Stat { id, path } => {
                let id = self.id(id);
                let stat = host.stat(&id, Path::new(path)).await?;
                self.entry(&id, &stat).await.map(Outcome::Entry)
            }
            Operation::ListDirectory { id, path } => {
                self.list(&self.id(id), path, 1).await.map(Outcome::Entries)
            }
            Operation::Exec { id, action } => self.exec(&self.id(id), action).await,
            Operation::Tool {
                id,
                call,
                tool,
                snapshot,
            } => self.tool(id, call, tool, snapshot).await,
            Operation::CompleteTurn { id } => Ok(Outcome::Snapshot(
                self.snapshot(&host.turn_complete(&self.id(id)).await?),
            )),
            Operation::TakeSnapshot { id, name } => {
                let wanted = if is_generated(name) {
                    None
                } else {
                    Some(self.name(name))
                };
                let info = host
                    .create_snapshot(&self.id(id), wanted, Quiesce::WhereNeeded)
                    .await?;
                self.learn_snapshot(name, &info.name, "snap-");
                Ok(Outcome::Snapshot(self.snapshot(&info)))
            }
            Operation::ListSnapshots { id } => {
                let snapshots = host.list_snapshots(&self.id(id)).await?;
                Ok(Outcome::Snapshots(
                    snapshots.iter().map(|info| self.snapshot(info)).collect(),
                ))
            }
            Operation::DeleteSnapshot { id, name } => host
                .delete_snapshot(&self.id(id), &self.name(name))
                .await
                .map(|()| Outcome::Done),
            Operation::Diff { id, from, to } => {
                let to = to.as_ref().map(|to| self.name(to));
                let changes = host
                    .diff(&self.id(id), &self.name(from), to.as_ref())
                    .await?;
                Ok(Outcome::Changes(changes.iter().map(change).collect()))
            }
            Operation::RollBack {
                id,
                name,
                keep_later,
            } => {
                let later = if *keep_later {
                    LaterSnapshots::Keep
                } else {
                    LaterSnapshots::Drop
                };
                let info = host
                    .rollback_session(&self.id(id), &self.name(name), later)
                    .await?;
                Ok(Outcome::Session(self.session(&info)))
            }
            Operation::Fork {
                id,
                from,
                count,
                ids,
                labels,
            } => {
                let request = ForkRequest {
                    from: from.as_ref().map(|from| self.name(from)),
                    count: *count,
                    ids: ids
                        .iter()
                        .filter(|id| !is_generated(id))
                        .map(|id| self.id(id))
                        .collect(),
                    labels: owned(labels),
                };
                let copies = host.fork_session(&self.id(id), request).await?;
                for (symbol, copy) in ids.iter().zip(&copies) {
                    self.learn(symbol, copy.id.as_str());
                }
                Ok(Outcome::Sessions(
                    copies.iter().map(|info| self.session(info)).collect(),
                ))
            }
            Operation::Pause { id } => Ok(Outcome::Session(
                self.session(&host.pause_session(&self.id(id)).await?),
            )),
            Operation::Resume { id } => Ok(Outcome::Session(
                self.session(&host.resume_session(&self.id(id)).await?),
            )),
            Operation::Hibernate { id } => Ok(Outcome::Session(
                self.session(&host.hibernate_session(&self.id(id)).await?),
            )),
            Operation::Wake { id } => Ok(Outcome::Session(
                self.session(&host.wake_session(&self.id(id)).await?),
            )),
            Operation::Restart => {
                // These handles would keep the old host alive, and its data directory locked.
                drop(host);
                self.machine.restart().await;
                Ok(Outcome::Done)
            }
        }
    }

    async fn pages(
        &self,
        filter: &SessionFilter,
        size: usize,
        token: Option<&str>,
    ) -> Result<Outcome> {
        let mut pages = Vec::new();
        let mut token = token.map(str::to_owned);
        loop {
            let page = self
                .machine
                .host()
                .list_sessions(filter, &PageRequest { size, token })
                .await?;
            pages.push(page.items.iter().map(|info| self.session(info)).collect());
            token = page.next_token;
            if token.is_none() {
                return Ok(Outcome::Pages(pages));
            }
        }
    }

    async fn exec(&self, id: &SessionId, action: &Action) -> Result<Outcome> {
        let spec = ExecSpec::new(["/bin/sh", "-c", &action.script()]);
        let mut command = self.machine.host().exec(id, spec).await?;
        let mut output = Vec::new();
        while let Some(event) = command.next_event().await {
            match event {
                ExecEvent::Stdout(bytes) => output.extend_from_slice(&bytes),
                ExecEvent::Stderr(_) => {}
                ExecEvent::Exited(status) => {
                    let output = String::from_utf8_lossy(&output).into_owned();
                    return Ok(Outcome::Command {
                        succeeded: status.code == Some(0),
                        output,
                    });
                }
            }
        }
        Err(Error::internal("the command never exited"))
    }

    async fn tool(
        &mut self,
        id: &str,
        call: &str,
        tool: &ToolUse,
        snapshot: &str,
    ) -> Result<Outcome> {
        let (tool, params) = match tool {
            ToolUse::WriteFile { path, content } => {
                ("write_file", json!({"path": path, "content": content}))
            }
            ToolUse::EditFile { path, old, new } => (
                "edit_file",
                json!({"path": path, "old_string": old, "new_string": new}),
            ),
            ToolUse::Bash { action } => ("bash", json!({"cmd": action.script()})),
            ToolUse::Unknown => ("no_such_tool", json!({})),
        };
        let Value::Object(params) = params else {
            unreachable!("parameters are an object")
        };
        let request = ToolRequest {
            tool: tool.to_owned(),
            call: ToolCallId::new(call)?,
            params,
            resources: Resources::default(),
        };
        let response = self
            .machine
            .host()
            .execute_tool(&self.id(id), request)
            .await?;
        if let Some(name) = &response.snapshot_id
            && !self.symbols.contains_key(name.as_str())
        {
            self.learn_snapshot(snapshot, name, &format!("tool-{}-", call.replace('/', "-")));
        }
        let key = (id.to_owned(), call.to_owned());
        let view = ToolView {
            is_error: response.is_error,
            content: (!response.is_error).then(|| response.content.clone()),
            repeated: self.answers.get(&key) == Some(&response),
            snapshot: response
                .snapshot_id
                .as_ref()
                .map(|name| self.symbol(name.as_str())),
        };
        self.answers.insert(key, response);
        Ok(Outcome::Tool(view))
    }

    async fn read(&self, id: &SessionId, path: &Path) -> Result<String> {
        let (mut file, _) = self.machine.host().open_file(id, path).await?;
        let mut content = String::new();
        file.read_to_string(&mut content)
            .map_err(|error| Error::io("read a file", error))?;
        Ok(content)
    }

    /// Entries below a directory of `/workspace`, by their path there.
    async fn list(
        &self,
        id: &SessionId,
        path: &str,
        depth: u32,
    ) -> Result<Vec<(PathBuf, EntryView)>> {
        let mut entries = Vec::new();
        for stat in self
            .machine
            .host()
            .list_dir(id, &Path::new(WORKSPACE).join(path), depth)
            .await?
        {
            entries.push((below_workspace(&stat.path), self.entry(id, &stat).await?));
        }
        Ok(entries)
    }

    async fn entry(&self, id: &SessionId, stat: &FileStat) -> Result<EntryView> {
        if (stat.uid, stat.gid) != (0, 0) {
            return Err(Error::internal(format!(
                "`{}` belongs to {}:{}",
                stat.path.display(),
                stat.uid,
                stat.gid
            )));
        }
        match stat.entry {
            EntryType::Directory => Ok(EntryView::Directory { mode: stat.mode }),
            EntryType::File => {
                let content = self.read(id, &stat.path).await?;
                if stat.size.get() != content.len() as u64 {
                    return Err(Error::internal(format!(
                        "`{}` has another size",
                        stat.path.display()
                    )));
                }
                Ok(EntryView::File {
                    mode: stat.mode,
                    content,
                })
            }
            EntryType::Symlink => Ok(EntryView::Link {
                target: stat.symlink_target.clone().unwrap_or_default(),
            }),
            other => Err(Error::internal(format!(
                "`{}` is a {}",
                stat.path.display(),
                other.as_str()
            ))),
        }
    }

    fn session(&self, info: &SessionInfo) -> SessionView {
        let parent = info.parent.as_ref().map(|(session, snapshot)| {
            (
                self.symbol(session.as_str()),
                snapshot.as_ref().map(|name| self.symbol(name.as_str())),
            )
        });
        SessionView {
            id: self.symbol(info.id.as_str()),
            state: info.state.to_string(),
            base: info.base.to_string(),
            labels: info.labels.clone(),
            turns: info.turn_count,
            snapshots: info.snapshot_count,
            parent,
        }
    }

    fn snapshot(&self, info: &SnapshotInfo) -> SnapshotView {
        SnapshotView {
            name: self.symbol(info.name.as_str()),
            kind: info.kind.to_string(),
            parent: info.parent.as_ref().map(|name| self.symbol(name.as_str())),
        }
    }

    /// Remembers the name the host made up for a symbol.
    fn learn(&mut self, symbol: &str, name: &str) {
        if is_generated(symbol) {
            self.names.insert(symbol.to_owned(), name.to_owned());
            self.symbols.insert(name.to_owned(), symbol.to_owned());
        }
    }

    /// As [`learn`](Self::learn), for a name that has to begin in a certain way. One that does not
    /// stays what it is, and the model will not know it.
    fn learn_snapshot(&mut self, symbol: &str, name: &SnapshotName, beginning: &str) {
        if name.as_str().starts_with(beginning) {
            self.learn(symbol, name.as_str());
        }
    }

    fn symbol(&self, name: &str) -> String {
        self.symbols
            .get(name)
            .cloned()
            .unwrap_or_else(|| name.to_owned())
    }

    fn real(&self, symbol: &str) -> String {
        // An unknown symbol names an object that was never created.
        self.names
            .get(symbol)
            .cloned()
            .unwrap_or_else(|| symbol.replace('?', "never-made-"))
    }

    fn id(&self, symbol: &str) -> SessionId {
        SessionId::new(self.real(symbol)).unwrap()
    }

    fn name(&self, symbol: &str) -> SnapshotName {
        SnapshotName::new(self.real(symbol)).unwrap()
    }
}

fn owned(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn below_workspace(path: &Path) -> PathBuf {
    path.strip_prefix(WORKSPACE).unwrap_or(path).to_owned()
}

fn change(change: &Change) -> ChangeView {
    let aspects = change
        .aspects
        .iter()
        .filter(|aspect| *aspect != Aspect::Time)
        .map(Aspect::as_str);
    ChangeView {
        path: below_workspace(&change.path),
        kind: change.kind.as_str(),
        entry: change.entry.as_str(),
        aspects: aspects.collect::<BTreeSet<_>>(),
        size: change.size,
    }
}
