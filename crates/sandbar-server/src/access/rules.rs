//! Access rules: the scope that each call needs.

use bytes::Bytes;
use connectrpc::{CodecFormat, ConnectError, HasMessageView, JsonDeserialize, codec::decode_json};
use sandbar_core::Need;
use sandbar_proto::v1::{
    self, attach_process_request, exec_request, import_tree_request, write_file_request,
};

/// Access rule of a call. The session id is in its first message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Any token. Handlers of such calls disclose nothing about sessions, or filter by the
    /// caller's scopes.
    AnyToken,
    /// Read access to the session.
    ReadSession(SessionOf),
    /// Write access to the session.
    UseSession(SessionOf),
    /// Scope `admin`.
    Admin,
}

/// Decodes the session id from a message.
pub(super) type SessionOf =
    fn(&Bytes, CodecFormat, &buffa::DecodeOptions) -> Result<String, ConnectError>;

const CALLS: &str = "sandbar.v1.SandboxService/";
const REFLECTION: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Returns the rule of a call by its path without the leading `/`. A call without a rule is denied
/// to every caller; a test compares this table with the compiled descriptor of the API.
#[expect(clippy::match_same_arms, reason = "the table is grouped by topic")]
pub(super) fn for_call(path: &str) -> Option<Rule> {
    use Rule::{Admin, AnyToken, ReadSession, UseSession};
    let Some(call) = path.strip_prefix(CALLS) else {
        return REFLECTION.contains(&path).then_some(AnyToken);
    };
    Some(match call {
        "HealthCheck" | "Capabilities" | "ListTools" | "ListBases" => AnyToken,
        // The handler filters by the caller's scopes.
        "ListSessions" => AnyToken,

        "CreateSession" | "ForkSession" | "ImportBase" | "SaveBase" | "DeleteBase" => Admin,
        // Egress policy and secrets are admin-only: an agent that holds the token of its own
        // session must not be able to widen its network access.
        "SetNetwork" | "PutSecret" | "ListSecrets" | "DeleteSecret" => Admin,
        // Expiry is admin-only: a session must not be able to extend its own lifetime.
        "SetExpiry" => Admin,
        "CreateToken" | "ListTokens" | "RevokeToken" => Admin,

        "GetSession" => ReadSession(session_of::<v1::GetSessionRequest>),
        "GetNetwork" => ReadSession(session_of::<v1::GetNetworkRequest>),
        "ListSnapshots" => ReadSession(session_of::<v1::ListSnapshotsRequest>),
        "Diff" => ReadSession(session_of::<v1::DiffRequest>),
        "GetProcessStatus" => ReadSession(session_of::<v1::GetProcessStatusRequest>),
        "ListProcesses" => ReadSession(session_of::<v1::ListProcessesRequest>),
        "WaitProcess" => ReadSession(session_of::<v1::WaitProcessRequest>),
        "ProcessLogs" => ReadSession(session_of::<v1::ProcessLogsRequest>),
        "Audit" => ReadSession(session_of::<v1::AuditRequest>),
        "VerifyAudit" => ReadSession(session_of::<v1::VerifyAuditRequest>),
        "ReadFile" => ReadSession(session_of::<v1::ReadFileRequest>),
        "Stat" => ReadSession(session_of::<v1::StatRequest>),
        "ListDir" => ReadSession(session_of::<v1::ListDirRequest>),
        "ExportTree" => ReadSession(session_of::<v1::ExportTreeRequest>),

        "DestroySession" => UseSession(session_of::<v1::DestroySessionRequest>),
        "PauseSession" => UseSession(session_of::<v1::PauseSessionRequest>),
        "ResumeSession" => UseSession(session_of::<v1::ResumeSessionRequest>),
        "HibernateSession" => UseSession(session_of::<v1::HibernateSessionRequest>),
        "WakeSession" => UseSession(session_of::<v1::WakeSessionRequest>),
        "TurnComplete" => UseSession(session_of::<v1::TurnCompleteRequest>),
        "CreateSnapshot" => UseSession(session_of::<v1::CreateSnapshotRequest>),
        "DeleteSnapshot" => UseSession(session_of::<v1::DeleteSnapshotRequest>),
        "RollbackSession" => UseSession(session_of::<v1::RollbackSessionRequest>),
        "Exec" => UseSession(session_of::<v1::ExecRequest>),
        "LaunchProcess" => UseSession(session_of::<v1::LaunchProcessRequest>),
        "KillProcess" => UseSession(session_of::<v1::KillProcessRequest>),
        "SendProcessInput" => UseSession(session_of::<v1::SendProcessInputRequest>),
        "ExecuteTool" | "ExecuteToolStream" => UseSession(session_of::<v1::ExecuteToolRequest>),
        "WriteFile" => UseSession(session_of::<v1::WriteFileRequest>),
        "ImportTree" => UseSession(session_of::<v1::ImportTreeRequest>),
        "MakeDir" => UseSession(session_of::<v1::MakeDirRequest>),
        "MovePath" => UseSession(session_of::<v1::MovePathRequest>),
        "RemovePath" => UseSession(session_of::<v1::RemovePathRequest>),

        "AttachProcess" => UseSession(session_of::<v1::AttachProcessRequest>),
        // An empty session id asks for the events of all sessions, which needs scope `read`.
        "WatchEvents" => ReadSession(session_of::<v1::WatchEventsRequest>),
        "WatchDir" => ReadSession(session_of::<v1::WatchDirRequest>),
        _ => return None,
    })
}

/// Returns the scope that a path needs before dispatch. [`for_call`] is applied to RPCs on top.
pub(super) fn for_path(path: &str) -> Need<'static> {
    match path {
        "/metrics" => Need::Read,
        _ => Need::AnyToken,
    }
}

/// Reports whether a unary call lasts as long as a process in the session. Such calls have no
/// default deadline, and end with their token.
pub(super) fn waits_for_session(path: &str) -> bool {
    matches!(
        path.strip_prefix(CALLS),
        Some("WaitProcess" | "ExecuteTool" | "SendProcessInput")
    )
}

/// Message that names a session.
trait AboutSession {
    /// Returns the session id; empty when the message names none.
    fn session(self) -> String;
}

macro_rules! about_session {
    ($($message:ident)*) => {
        $(impl AboutSession for v1::$message {
            fn session(self) -> String {
                self.session_id
            }
        })*
    };
}

about_session! {
    GetSessionRequest GetNetworkRequest ListSnapshotsRequest DiffRequest GetProcessStatusRequest ListProcessesRequest
    WaitProcessRequest ProcessLogsRequest AuditRequest VerifyAuditRequest ReadFileRequest StatRequest ListDirRequest
    ExportTreeRequest DestroySessionRequest PauseSessionRequest ResumeSessionRequest HibernateSessionRequest
    WakeSessionRequest TurnCompleteRequest CreateSnapshotRequest DeleteSnapshotRequest
    RollbackSessionRequest LaunchProcessRequest KillProcessRequest SendProcessInputRequest ExecuteToolRequest
    WatchEventsRequest WatchDirRequest MakeDirRequest MovePathRequest RemovePathRequest
}

impl AboutSession for v1::AttachProcessRequest {
    fn session(self) -> String {
        match self.request {
            Some(attach_process_request::Request::Attach(attach)) => attach.session_id,
            _ => String::new(),
        }
    }
}

impl AboutSession for v1::ExecRequest {
    fn session(self) -> String {
        match self.request {
            Some(exec_request::Request::Start(start)) => start.session_id,
            _ => String::new(),
        }
    }
}

impl AboutSession for v1::WriteFileRequest {
    fn session(self) -> String {
        match self.part {
            Some(write_file_request::Part::Start(start)) => start.session_id,
            _ => String::new(),
        }
    }
}

impl AboutSession for v1::ImportTreeRequest {
    fn session(self) -> String {
        match self.part {
            Some(import_tree_request::Part::Start(start)) => start.session_id,
            _ => String::new(),
        }
    }
}

/// Decodes a request exactly as the RPC library does for the handler: JSON into the message, the
/// binary form into a view first. Two decoders could disagree about the session id.
fn session_of<M>(
    request: &Bytes,
    format: CodecFormat,
    options: &buffa::DecodeOptions,
) -> Result<String, ConnectError>
where
    M: AboutSession + HasMessageView + JsonDeserialize,
{
    let message: M = match format {
        CodecFormat::Json => decode_json(request)?,
        CodecFormat::Proto => {
            let view = M::decode_view_with_options(request, options);
            view.and_then(|view| buffa::MessageView::to_owned_message(&view))
                .map_err(|error| {
                    ConnectError::invalid_argument(format!(
                        "failed to decode proto request: {error}"
                    ))
                })?
        }
        _ => {
            return Err(ConnectError::unimplemented(
                "codec not supported: use JSON or binary protobuf",
            ));
        }
    };
    Ok(message.session())
}
