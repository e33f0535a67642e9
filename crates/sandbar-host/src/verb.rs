//! What can be asked of a host, by name: for the audit log, the metrics and the spans.

use sandbar_core::{EventKind, SessionId, SessionState};
use serde_json::{Map, Value};
use tracing::{Span, field};

use crate::events::Happening;

macro_rules! verbs {
    ($($name:ident $text:literal $record:ident,)*) => {
        /// Something a host is asked to do. The names are those of the wire API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Verb {
            $($name,)*
        }

        impl Verb {
            pub(crate) const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Whether it changes something or runs something, and so belongs into the audit log.
            pub(crate) const fn is_audited(self) -> bool {
                match self {
                    $(Self::$name => verbs!(@$record),)*
                }
            }
        }
    };
    (@audited) => { true };
    (@silent) => { false };
}

verbs! {
    CreateSession "create_session" audited,
    GetSession "get_session" silent,
    ListSessions "list_sessions" silent,
    DestroySession "destroy_session" audited,
    ForkSession "fork_session" audited,
    PauseSession "pause_session" audited,
    ResumeSession "resume_session" audited,
    HibernateSession "hibernate_session" audited,
    WakeSession "wake_session" audited,
    SetExpiry "set_expiry" audited,
    PutNote "put_note" audited,
    GetNote "get_note" silent,
    ListNotes "list_notes" silent,
    RemoveNote "remove_note" audited,
    GetNetwork "get_network" silent,
    SetNetwork "set_network" audited,
    PutSecret "put_secret" audited,
    ListSecrets "list_secrets" silent,
    DeleteSecret "delete_secret" audited,
    CreateToken "create_token" audited,
    ListTokens "list_tokens" silent,
    RevokeToken "revoke_token" audited,
    TurnComplete "turn_complete" audited,
    CreateSnapshot "create_snapshot" audited,
    ListSnapshots "list_snapshots" silent,
    DeleteSnapshot "delete_snapshot" audited,
    RollbackSession "rollback_session" audited,
    Diff "diff" silent,
    Exec "exec" audited,
    ExecuteTool "execute_tool" audited,
    LaunchProcess "launch_process" audited,
    AttachProcess "attach_process" audited,
    KillProcess "kill_process" audited,
    GetProcessStatus "get_process_status" silent,
    ListProcesses "list_processes" silent,
    WaitProcess "wait_process" silent,
    ProcessLogs "process_logs" silent,
    WriteProcessStdin "write_process_stdin" audited,
    CloseProcessStdin "close_process_stdin" audited,
    ResizeProcess "resize_process" silent,
    DialPort "dial_port" silent,
    PortAccess "port_access" silent,
    ReadFile "read_file" silent,
    BeginWriteFile "begin_write_file" silent,
    WriteFile "write_file" audited,
    Stat "stat" silent,
    ListDir "list_dir" silent,
    UserAccount "user_account" silent,
    MakeDir "make_dir" audited,
    MovePath "move_path" audited,
    RemovePath "remove_path" audited,
    WatchDir "watch_dir" silent,
    ExportTree "export_tree" audited,
    ImportTree "import_tree" audited,
    ListBases "list_bases" silent,
    ImportBase "import_base" audited,
    SaveBase "save_base" audited,
    GetBaseNote "get_base_note" silent,
    SetBaseNote "set_base_note" audited,
    DeleteBase "delete_base" audited,
    Audit "audit" silent,
    VerifyAudit "verify_audit" silent,
    HealthCheck "health_check" silent,
    Shutdown "shutdown" audited,
}

impl Verb {
    /// What whoever watches events is told when it was done. Everything that changes a session is told.
    pub(crate) fn happening(self) -> Option<Happening> {
        Some(match self {
            Self::CreateSession => Happening { kind: EventKind::SessionCreated, state: Some(SessionState::Active) },
            Self::DestroySession => EventKind::SessionDestroyed.into(),
            Self::ForkSession => EventKind::SessionForked.into(),
            Self::PauseSession => SessionState::Paused.into(),
            Self::ResumeSession | Self::WakeSession => SessionState::Active.into(),
            Self::HibernateSession => SessionState::Hibernated.into(),
            Self::TurnComplete => EventKind::TurnCompleted.into(),
            Self::CreateSnapshot => EventKind::SnapshotTaken.into(),
            Self::DeleteSnapshot => EventKind::SnapshotDeleted.into(),
            Self::RollbackSession => EventKind::RolledBack.into(),
            Self::LaunchProcess => EventKind::ProcessLaunched.into(),
            Self::ExecuteTool => EventKind::ToolFinished.into(),
            Self::GetSession
            | Self::ListSessions
            | Self::SetExpiry
            | Self::PutNote
            | Self::GetNote
            | Self::ListNotes
            | Self::RemoveNote
            | Self::GetNetwork
            | Self::SetNetwork
            | Self::PutSecret
            | Self::ListSecrets
            | Self::DeleteSecret
            | Self::CreateToken
            | Self::ListTokens
            | Self::RevokeToken
            | Self::ListSnapshots
            | Self::Diff
            | Self::Exec
            | Self::AttachProcess
            | Self::KillProcess
            | Self::GetProcessStatus
            | Self::ListProcesses
            | Self::WaitProcess
            | Self::ProcessLogs
            | Self::WriteProcessStdin
            | Self::CloseProcessStdin
            | Self::ResizeProcess
            | Self::DialPort
            | Self::PortAccess
            | Self::ReadFile
            | Self::BeginWriteFile
            | Self::WriteFile
            | Self::Stat
            | Self::ListDir
            | Self::UserAccount
            | Self::MakeDir
            | Self::MovePath
            | Self::RemovePath
            | Self::WatchDir
            | Self::ExportTree
            | Self::ImportTree
            | Self::ListBases
            | Self::ImportBase
            | Self::SaveBase
            | Self::GetBaseNote
            | Self::SetBaseNote
            | Self::DeleteBase
            | Self::Audit
            | Self::VerifyAudit
            | Self::HealthCheck
            | Self::Shutdown => return None,
        })
    }
}

/// A verb with what it is asked of, and what people will want to know about it later.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) session: Option<SessionId>,
    pub(crate) detail: Map<String, Value>,
}

impl Call {
    /// A call to the host itself.
    pub(crate) fn of(verb: Verb) -> Self {
        Self { verb, session: None, detail: Map::new() }
    }

    /// A call to a session.
    pub(crate) fn on(session: &SessionId, verb: Verb) -> Self {
        Self { session: Some(session.clone()), ..Self::of(verb) }
    }

    /// Opens the span of this call. The fields without a value are recorded when they are known.
    pub(crate) fn span(&self) -> Span {
        let (verb, tool) = (self.verb.as_str(), self.detail.get("tool").and_then(Value::as_str));
        tracing::debug_span!(
            "verb",
            otel.name = verb,
            otel.status_code = field::Empty,
            verb,
            session = self.session.as_ref().map(field::display),
            tool,
            snapshot = field::Empty,
            outcome = field::Empty,
        )
    }

    /// Adds a detail. Never a secret: no environment, no file content.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(key.to_owned(), value.into());
        self
    }
}
