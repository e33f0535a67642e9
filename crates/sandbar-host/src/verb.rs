//! [`Verb`]: the operations of a host, by the names that audit log, metrics and spans use.

use sandbar_core::{EventKind, SessionId, SessionState};
use serde_json::{Map, Value};
use tracing::{Span, field};

use crate::{call_slots::CallClass, events::Happening};

macro_rules! verbs {
    ($($name:ident $text:literal $record:ident $pool:ident,)*) => {
        /// An operation of a host. The names are those of the wire API.
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

            /// Whether it changes or runs something and is therefore written to the audit log.
            pub(crate) const fn is_audited(self) -> bool {
                match self {
                    $(Self::$name => verbs!(@$record),)*
                }
            }

            /// Whether it may wait for another verb, a box or a peer, and therefore runs on the
            /// waiting pool (`blocking.rs`).
            pub(crate) const fn waits(self) -> bool {
                match self {
                    $(Self::$name => verbs!(@$pool),)*
                }
            }
        }
    };
    (@audited) => { true };
    (@silent) => { false };
    (@waits) => { true };
    (@brief) => { false };
}

verbs! {
    CreateSession "create_session" audited waits,
    GetSession "get_session" silent waits,
    ListSessions "list_sessions" silent waits,
    DestroySession "destroy_session" audited waits,
    ForkSession "fork_session" audited waits,
    PauseSession "pause_session" audited waits,
    ResumeSession "resume_session" audited waits,
    HibernateSession "hibernate_session" audited waits,
    WakeSession "wake_session" audited waits,
    SetExpiry "set_expiry" audited waits,
    PutNote "put_note" audited brief,
    GetNote "get_note" silent brief,
    ListNotes "list_notes" silent brief,
    RemoveNote "remove_note" audited brief,
    GetNetwork "get_network" silent brief,
    SetNetwork "set_network" audited waits,
    PutSecret "put_secret" audited brief,
    ListSecrets "list_secrets" silent brief,
    DeleteSecret "delete_secret" audited brief,
    CreateToken "create_token" audited brief,
    ListTokens "list_tokens" silent brief,
    RevokeToken "revoke_token" audited brief,
    TurnComplete "turn_complete" audited waits,
    CreateSnapshot "create_snapshot" audited waits,
    ListSnapshots "list_snapshots" silent brief,
    DeleteSnapshot "delete_snapshot" audited waits,
    RollbackSession "rollback_session" audited waits,
    Diff "diff" silent waits,
    Exec "exec" audited waits,
    ExecuteTool "execute_tool" audited brief,
    LaunchProcess "launch_process" audited waits,
    AttachProcess "attach_process" audited brief,
    KillProcess "kill_process" audited waits,
    GetProcessStatus "get_process_status" silent brief,
    ListProcesses "list_processes" silent brief,
    WaitProcess "wait_process" silent brief,
    ProcessLogs "process_logs" silent brief,
    WriteProcessStdin "write_process_stdin" audited brief,
    CloseProcessStdin "close_process_stdin" audited brief,
    ResizeProcess "resize_process" silent waits,
    DialPort "dial_port" silent brief,
    PortAccess "port_access" silent brief,
    ReadFile "read_file" silent brief,
    BeginWriteFile "begin_write_file" silent brief,
    WriteFile "write_file" audited brief,
    Stat "stat" silent brief,
    ListDir "list_dir" silent waits,
    UserAccount "user_account" silent brief,
    MakeDir "make_dir" audited brief,
    MovePath "move_path" audited brief,
    RemovePath "remove_path" audited brief,
    WatchDir "watch_dir" silent brief,
    ExportTree "export_tree" audited brief,
    ImportTree "import_tree" audited brief,
    ListBases "list_bases" silent brief,
    ImportBase "import_base" audited brief,
    SaveBase "save_base" audited waits,
    GetBaseNote "get_base_note" silent brief,
    SetBaseNote "set_base_note" audited brief,
    DeleteBase "delete_base" audited brief,
    Audit "audit" silent brief,
    VerifyAudit "verify_audit" silent brief,
    HealthCheck "health_check" silent brief,
    Shutdown "shutdown" audited waits,
}

impl Verb {
    /// Returns the class of slots that a call on a session takes.
    pub(crate) const fn class(self) -> CallClass {
        match self {
            Self::Exec | Self::LaunchProcess => CallClass::Start,
            Self::KillProcess | Self::ResizeProcess => CallClass::Signal,
            Self::GetSession => CallClass::Show,
            Self::DestroySession => CallClass::Destroy,
            other if other.waits() => CallClass::Wait,
            _ => CallClass::Brief,
        }
    }

    /// Returns the event for watchers when the verb succeeded. Every change of a session has one.
    pub(crate) fn happening(self) -> Option<Happening> {
        Some(match self {
            Self::CreateSession => Happening {
                kind: EventKind::SessionCreated,
                state: Some(SessionState::Active),
            },
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

/// A verb with its session, and the details that go to the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) session: Option<SessionId>,
    pub(crate) detail: Map<String, Value>,
}

impl Call {
    /// A call to the host itself.
    pub(crate) fn of(verb: Verb) -> Self {
        Self {
            verb,
            session: None,
            detail: Map::new(),
        }
    }

    /// A call to a session.
    pub(crate) fn on(session: &SessionId, verb: Verb) -> Self {
        Self {
            session: Some(session.clone()),
            ..Self::of(verb)
        }
    }

    /// Opens the span of this call. The fields without a value are recorded when they are known.
    pub(crate) fn span(&self) -> Span {
        let (verb, tool) = (
            self.verb.as_str(),
            self.detail.get("tool").and_then(Value::as_str),
        );
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
