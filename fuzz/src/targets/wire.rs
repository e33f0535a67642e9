//! Messages of the API. The first byte selects the message, so that one corpus serves all of them.

use buffa::Message;
use connectrpc::{ConnectError, ErrorCode as RpcCode, ErrorDetail};
use sandbar_core::{
    AuditEntry, BaseInfo, Capabilities, Change, Error, ExitStatus, FileStat, Health, LogChunk,
    NetworkPolicy, NetworkStatus, ProcessInfo, SecretInfo, SessionInfo, SessionSpec, SnapshotInfo,
    TerminalSize, ToolInfo, ToolResponse,
};
use sandbar_proto::{from_connect, parse_api_version, to_connect, unpack_path, v1};
use serde::de::DeserializeOwned;

type Read = fn(&[u8], Form);

/// Encoding of a message.
#[derive(Clone, Copy)]
enum Form {
    Binary,
    Json,
}

fn read<M: Message + DeserializeOwned>(bytes: &[u8], form: Form) -> Option<M> {
    match form {
        Form::Binary => M::decode_from_slice(bytes).ok(),
        Form::Json => serde_json::from_slice(bytes).ok(),
    }
}

/// Decoder of one message, including its conversion to `sandbar-core` types.
macro_rules! reader {
    ($message:ident) => {
        |bytes, form| drop(read::<v1::$message>(bytes, form))
    };
    ($message:ident.unpack) => {
        |bytes, form| {
            if let Some(message) = read::<v1::$message>(bytes, form) {
                named_at_fault(message.unpack().err());
            }
        }
    };
    ($message:ident as $meaning:ty) => {
        |bytes, form| {
            if let Some(message) = read::<v1::$message>(bytes, form) {
                named_at_fault(<$meaning>::try_from(message).err());
            }
        }
    };
}

/// Request messages.
const REQUESTS: &[Read] = &[
    reader!(CreateSessionRequest as SessionSpec),
    reader!(ListSessionsRequest.unpack),
    reader!(ForkSessionRequest.unpack),
    reader!(SetNetworkRequest.unpack),
    reader!(PutSecretRequest.unpack),
    reader!(ExecStart.unpack),
    reader!(ExecRequest),
    reader!(TerminalSize as TerminalSize),
    reader!(LaunchProcessRequest.unpack),
    reader!(WaitProcessRequest.unpack),
    reader!(ProcessLogsRequest.unpack),
    reader!(AuditRequest.unpack),
    reader!(ExecuteToolRequest.unpack),
    reader!(NetworkPolicy as NetworkPolicy),
    reader!(WriteFileRequest),
    reader!(ImportTreeRequest),
    reader!(SendProcessInputRequest),
    reader!(KillProcessRequest),
    reader!(CreateSnapshotRequest),
    reader!(DiffRequest),
    reader!(ImportBaseRequest),
    reader!(StatRequest),
    reader!(ExportTreeRequest),
];

/// Response messages.
const ANSWERS: &[Read] = &[
    reader!(Session as SessionInfo),
    reader!(Snapshot as SnapshotInfo),
    reader!(Change as Change),
    reader!(Base as BaseInfo),
    reader!(Process as ProcessInfo),
    reader!(ProcessLogsResponse as LogChunk),
    reader!(AuditEntry as AuditEntry),
    reader!(Tool as ToolInfo),
    reader!(ToolResult as ToolResponse),
    reader!(ExecuteToolStreamResponse.unpack),
    reader!(HealthCheckResponse as Health),
    reader!(CapabilitiesResponse as Capabilities),
    reader!(NetworkStatus as NetworkStatus),
    reader!(Secret as SecretInfo),
    reader!(FileStat as FileStat),
    reader!(ExecExited as ExitStatus),
];

/// Decodes requests in binary.
pub(super) fn requests(bytes: &[u8]) {
    one_of(REQUESTS, bytes, Form::Binary);
}

/// Decodes requests in JSON.
pub(super) fn requests_json(bytes: &[u8]) {
    one_of(REQUESTS, bytes, Form::Json);
}

/// Decodes responses in both encodings.
pub(super) fn answers(bytes: &[u8]) {
    one_of(ANSWERS, bytes, Form::Binary);
    one_of(ANSWERS, bytes, Form::Json);
}

fn one_of(readers: &[Read], bytes: &[u8], form: Form) {
    if let Some((which, bytes)) = bytes.split_first() {
        readers[usize::from(*which) % readers.len()](bytes, form);
    }
}

/// Panics unless a refused request names the field at fault.
fn named_at_fault(error: Option<Error>) {
    if let Some(error) = error {
        assert!(error.field().is_some(), "`{error}` names no field");
    }
}

/// Decodes an error of a server or a proxy; it must encode again.
pub(super) fn errors(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (kind, value) = text
        .split_once('\n')
        .unwrap_or(("sandbar.v1.ErrorDetail", &text));
    let mut detail =
        ErrorDetail::from_message("sandbar.v1.ErrorDetail", &v1::ErrorDetail::default());
    kind.clone_into(&mut detail.type_url);
    detail.value = Some(value.to_owned());
    let error = from_connect(&ConnectError::new(RpcCode::Internal, "x").with_detail(detail));
    assert_eq!(from_connect(&to_connect(&error, None)).code(), error.code());
}

/// Parses the version header.
pub(super) fn api_version(bytes: &[u8]) {
    let _ = parse_api_version(&String::from_utf8_lossy(bytes));
}

/// Parses paths, as text or as bytes.
pub(super) fn paths(bytes: &[u8]) {
    let cut = bytes
        .first()
        .map_or(0, |cut| usize::from(*cut))
        .min(bytes.len());
    let (text, raw) = bytes.split_at(cut);
    let _ = unpack_path(
        String::from_utf8_lossy(text).into_owned(),
        raw.to_vec().into(),
    );
    let _ = unpack_path(String::new(), bytes.to_vec().into());
}
