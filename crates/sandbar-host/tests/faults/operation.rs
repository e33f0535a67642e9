//! Operations into which faults are injected.

use std::sync::Arc;

use bytes::Bytes;
use sandbar_core::{
    BaseName, ErrorCode, ForkRequest, Keep, LaterSnapshots, NetworkPolicy, Quiesce, Resources,
    Result, SessionId, SessionSpec, SessionState, ToolCallId, ToolRequest, WriteOptions,
};
use sandbar_host::Host;
use serde_json::json;

use crate::fixture::{FILE, FaultyHost, shell, snap, spec};

/// One operation of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Fork,
    ForkOfSnapshot,
    Snapshot,
    Turn,
    DeleteSnapshot,
    RollbackDrop,
    RollbackKeep,
    Diff,
    /// The first command of a session: its tree is mounted and its sandbox opened.
    FirstExec,
    Exec,
    Tool,
    WriteFile,
    Pause,
    /// Pauses without memory.
    PauseKeepingFiles,
    Resume,
    SaveBase,
    /// A session from a saved base.
    CreateFromSaved,
    /// A saved base goes; a session made from it stays.
    DeleteSaved,
    /// The network of a box that runs is opened, where the runtime can do that.
    SetNetwork,
    Destroy,
}

/// Copies a fork makes.
const COPIES: usize = 3;

/// The session an operation is about.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) id: SessionId,
    pub(crate) forks: Vec<SessionId>,
}

impl Subject {
    /// The base that is made from it.
    pub(crate) fn base(&self) -> BaseName {
        BaseName::new(format!("{}-base", self.id)).unwrap()
    }
}

/// State of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// `None`: it does not exist.
    pub(crate) state: Option<SessionState>,
    content: Option<String>,
    snapshots: Vec<String>,
    turns: u64,
    network: Option<String>,
    has_base: bool,
    /// Contents of the forks there are.
    forks: Vec<Option<String>>,
}

impl Operation {
    /// A session with a history, ready for the operation.
    pub(crate) async fn prepare(self, faulty: &FaultyHost, name: &str) -> Subject {
        let id: SessionId = name.parse().unwrap();
        let forks = (0..COPIES)
            .map(|number| format!("{name}-fork-{number}").parse().unwrap())
            .collect();
        if self == Self::Create {
            return Subject { id, forks };
        }
        faulty.create(name).await;
        for content in ["one", "two"] {
            faulty.write(&id, content).await.unwrap();
            faulty
                .host()
                .create_snapshot(&id, Some(snap(content)), Quiesce::WhereNeeded)
                .await
                .unwrap();
        }
        faulty.write(&id, "now").await.unwrap();
        if self.is_on_a_fresh_session() {
            // A copy was never mounted.
            let cold: SessionId = format!("{name}-cold").parse().unwrap();
            let request = ForkRequest {
                count: 1,
                ids: vec![cold.clone()],
                ..ForkRequest::default()
            };
            faulty.host().fork_session(&id, request).await.unwrap();
            faulty.host().destroy_session(&id).await.unwrap();
            return Subject { id: cold, forks };
        }
        faulty.shell(&id, "true").await.unwrap();
        let subject = Subject { id, forks };
        match self {
            Self::Resume => drop(faulty.host().pause_session(&subject.id).await.unwrap()),
            Self::CreateFromSaved | Self::DeleteSaved => {
                faulty
                    .host()
                    .save_base(&subject.id, None, &subject.base(), None)
                    .await
                    .unwrap();
                faulty.host().destroy_session(&subject.id).await.unwrap();
                if self == Self::DeleteSaved {
                    faulty
                        .host()
                        .create_session(from_saved(&subject))
                        .await
                        .unwrap();
                }
            }
            _ => {}
        }
        subject
    }

    fn is_on_a_fresh_session(self) -> bool {
        matches!(self, Self::FirstExec | Self::Tool | Self::WriteFile)
    }

    pub(crate) async fn perform(self, host: Arc<Host>, subject: Subject) -> Result<()> {
        let (base, from_saved) = (subject.base(), from_saved(&subject));
        let Subject { id, forks } = subject;
        match self {
            Self::SaveBase => host.save_base(&id, None, &base, None).await.map(drop),
            Self::CreateFromSaved => host.create_session(from_saved).await.map(drop),
            Self::DeleteSaved => host.delete_base(&base).await,
            Self::Create => host.create_session(spec(id.as_str())).await.map(drop),
            Self::Fork | Self::ForkOfSnapshot => {
                let from = (self == Self::ForkOfSnapshot).then(|| snap("one"));
                let request = ForkRequest {
                    from,
                    count: COPIES,
                    ids: forks,
                    ..ForkRequest::default()
                };
                host.fork_session(&id, request).await.map(drop)
            }
            Self::Snapshot => host
                .create_snapshot(&id, Some(snap("three")), Quiesce::Always)
                .await
                .map(drop),
            Self::Turn => host.turn_complete(&id).await.map(drop),
            Self::DeleteSnapshot => host.delete_snapshot(&id, &snap("one")).await,
            Self::RollbackDrop => host
                .rollback_session(&id, &snap("one"), LaterSnapshots::Drop)
                .await
                .map(drop),
            Self::RollbackKeep => host
                .rollback_session(&id, &snap("one"), LaterSnapshots::Keep)
                .await
                .map(drop),
            Self::Diff => {
                let changes = host.diff(&id, &snap("one"), None).await?;
                assert_eq!(changes.len(), 1, "{changes:?}");
                Ok(())
            }
            Self::FirstExec | Self::Exec => shell(&host, &id, WRITE_AFTER).await,
            Self::Tool => {
                let params = json!({"cmd": WRITE_AFTER});
                let request = ToolRequest {
                    tool: "bash".into(),
                    call: ToolCallId::new("call").unwrap(),
                    params: params.as_object().unwrap().clone(),
                    resources: Resources::default(),
                };
                let answer = host.execute_tool(&id, request).await?;
                assert!(!answer.is_error, "{}", answer.content);
                Ok(())
            }
            Self::WriteFile => {
                let mut writer = host
                    .write_file(&id, FILE.as_ref(), WriteOptions::default())
                    .await?;
                writer.write(Bytes::from_static(b"after")).await?;
                writer.commit().await
            }
            Self::Pause => host.pause_session(&id).await.map(drop),
            Self::PauseKeepingFiles => host.pause_session_keeping(&id, Keep::Files).await.map(drop),
            Self::Resume => host.resume_session(&id).await.map(drop),
            Self::SetNetwork => host.set_network(&id, NetworkPolicy::full()).await.map(drop),
            Self::Destroy => host.destroy_session(&id).await,
        }
    }

    /// Whether a caller that goes away ends the operation, which otherwise runs to its end.
    pub(crate) fn ends_with_its_caller(self) -> bool {
        matches!(
            self,
            Self::FirstExec | Self::Exec | Self::Tool | Self::WriteFile
        )
    }
}

/// Replaces the content of the file in one step. The temporary file has the name of the process: a
/// command whose caller went away may still run when the operation is repeated.
const WRITE_AFTER: &str = "printf after > g.$$; mv g.$$ f";

fn from_saved(subject: &Subject) -> SessionSpec {
    SessionSpec {
        base: subject.base(),
        ..spec(subject.id.as_str())
    }
}

/// Reads the state of a subject through the host; an error while an exclusive operation holds it or
/// it is being created.
pub(crate) async fn observe(
    faulty: &FaultyHost,
    subject: &Subject,
) -> std::result::Result<Seen, String> {
    let mut forks = Vec::new();
    for fork in &subject.forks {
        if faulty.host().get_session(fork).await.is_ok() {
            forks.push(faulty.read(fork).await?);
        }
    }
    let bases = faulty
        .host()
        .list_bases()
        .await
        .map_err(|error| error.chain())?;
    let has_base = bases.iter().any(|base| base.name == subject.base());
    match faulty.host().get_session(&subject.id).await {
        Err(error) => {
            assert_eq!(
                error.code(),
                ErrorCode::SessionNotFound,
                "{}",
                error.chain()
            );
            Ok(Seen {
                state: None,
                content: None,
                snapshots: Vec::new(),
                turns: 0,
                network: None,
                has_base,
                forks,
            })
        }
        Ok(info) => {
            let present = matches!(info.state, SessionState::Active | SessionState::Paused);
            let content = if present {
                faulty.read(&subject.id).await?
            } else {
                None
            };
            // The janitor may have finished it since.
            let snapshots = faulty
                .host()
                .list_snapshots(&subject.id)
                .await
                .map_err(|error| error.chain())?;
            let snapshots = snapshots
                .into_iter()
                .map(|snapshot| snapshot.name.to_string())
                .collect();
            let network = info.network.map(|policy| policy.to_string());
            Ok(Seen {
                state: Some(info.state),
                content,
                snapshots,
                turns: info.turn_count,
                network,
                has_base,
                forks,
            })
        }
    }
}
