//! What each call takes: the one table of it.

use bytes::Bytes;
use connectrpc::{CodecFormat, ConnectError, HasMessageView, JsonDeserialize, codec::decode_json};
use sandbar_core::Need;
use sandbar_proto::v1::{self, attach_process_request, exec_request, import_tree_request, write_file_request};

/// What a call takes. The session is in its first message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Any token. Handlers of such calls tell nothing about sessions, or only about those of the caller.
    AnyToken,
    /// Looking at a session.
    ReadSession(SessionOf),
    /// Doing something with a session.
    UseSession(SessionOf),
    /// The rest.
    Admin,
}

/// Reads from a message which session it is about.
pub(super) type SessionOf = fn(&Bytes, CodecFormat, &buffa::DecodeOptions) -> Result<String, ConnectError>;

const CALLS: &str = "sandbar.v1.SandboxService/";
const REFLECTION: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// The rule of a call, by its path without the first `/`. A call that is not here is refused to everybody; a test walks
/// the compiled description of the API and finds it.
#[expect(clippy::match_same_arms, reason = "a table is read by groups")]
pub(super) fn of_call(path: &str) -> Option<Rule> {
    use Rule::{Admin, AnyToken, ReadSession, UseSession};
    let Some(call) = path.strip_prefix(CALLS) else { return REFLECTION.contains(&path).then_some(AnyToken) };
    Some(match call {
        "HealthCheck" | "Capabilities" | "ListTools" | "ListBases" => AnyToken,
        // Answers with the sessions the caller may look at.
        "ListSessions" => AnyToken,

        "CreateSession" | "ForkSession" | "ImportBase" | "SaveBase" | "DeleteBase" => Admin,
        // An agent that has the token of its own session must not let itself out.
        "SetNetwork" | "PutSecret" | "ListSecrets" | "DeleteSecret" => Admin,
        // Who bounds the life of a session, is not who lives in it.
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
        // Of all sessions only to those who may look at all.
        "WatchEvents" => ReadSession(session_of::<v1::WatchEventsRequest>),
        "WatchDir" => ReadSession(session_of::<v1::WatchDirRequest>),
        _ => return None,
    })
}

/// What a page that is no call takes. Calls are looked at again, one by one.
pub(super) fn of_page(path: &str) -> Need<'static> {
    match path {
        "/metrics" => Need::Read,
        _ => Need::AnyToken,
    }
}

/// Calls that take as long as something in a session does, which is not for this server to say.
pub(super) fn waits_for_a_session(path: &str) -> bool {
    matches!(path.strip_prefix(CALLS), Some("WaitProcess" | "ExecuteTool" | "SendProcessInput"))
}

/// A message that names a session.
trait AboutSession {
    /// The session; empty when it names none.
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

/// Decodes a request as the way to its handler does: JSON into the message, the binary form into a view of it first.
fn session_of<M>(request: &Bytes, format: CodecFormat, options: &buffa::DecodeOptions) -> Result<String, ConnectError>
where
    M: AboutSession + HasMessageView + JsonDeserialize,
{
    let message: M = match format {
        CodecFormat::Json => decode_json(request)?,
        CodecFormat::Proto => {
            let view = M::decode_view_with_options(request, options);
            view.and_then(|view| buffa::MessageView::to_owned_message(&view))
                .map_err(|error| ConnectError::invalid_argument(format!("failed to decode proto request: {error}")))?
        }
        _ => return Err(ConnectError::unimplemented("requests in this form are not read here")),
    };
    Ok(message.session())
}
