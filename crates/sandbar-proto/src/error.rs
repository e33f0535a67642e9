//! Conversion of errors to the wire and back.

use base64::{Engine as _, engine::general_purpose};
use buffa::Message as _;
use connectrpc::{ConnectError, ErrorCode as RpcCode, ErrorDetail};
use sandbar_core::{Error, ErrorCode, SessionId};

use crate::v1;

const DETAIL: &str = "sandbar.v1.ErrorDetail";

/// Converts an error to an RPC error: the RPC code, the message with its causes, and our detail for
/// programs.
pub fn to_connect(error: &Error, session: Option<&SessionId>) -> ConnectError {
    let code = error.code().rpc_code().parse().unwrap_or(RpcCode::Unknown);
    let detail = v1::ErrorDetail {
        code: error.code().as_str().to_owned(),
        field: error.field().unwrap_or_default().to_owned(),
        hint: error.hint().unwrap_or_default().to_owned(),
        session_id: session.map(|id| id.as_str().to_owned()).unwrap_or_default(),
        ..Default::default()
    };
    let mut wire = ErrorDetail::from_message(DETAIL, &detail);
    // The readable form of the detail, for users of `curl`. Clients read the encoded form.
    wire.debug = serde_json::to_value(&detail).ok();
    ConnectError::new(code, error.chain()).with_detail(wire)
}

/// Restores the error that a server sent. An error without our detail was raised by the transport
/// or a proxy, and is mapped by its RPC code.
pub fn from_connect(error: &ConnectError) -> Error {
    let message = error
        .message
        .clone()
        .unwrap_or_else(|| error.code.as_str().to_owned());
    let Some(detail) = error.details.iter().find_map(read_detail) else {
        return Error::new(code_without_detail(error.code), message);
    };
    let code =
        ErrorCode::from_name(&detail.code).unwrap_or_else(|| code_without_detail(error.code));
    let mut restored = Error::new(code, message);
    if !detail.field.is_empty() {
        restored = restored.with_field(detail.field);
    }
    if !detail.hint.is_empty() {
        restored = restored.with_hint(detail.hint);
    }
    restored
}

fn read_detail(detail: &ErrorDetail) -> Option<v1::ErrorDetail> {
    if detail.type_url.rsplit('/').next() != Some(DETAIL) {
        return None;
    }
    let value = detail.value.as_deref()?.trim_end_matches('=');
    let bytes = general_purpose::STANDARD_NO_PAD.decode(value).ok()?;
    v1::ErrorDetail::decode_from_slice(&bytes).ok()
}

/// Maps an RPC code without our detail.
fn code_without_detail(code: RpcCode) -> ErrorCode {
    match code {
        // Here `resource_exhausted` is a limit of the transport such as the message size, so the
        // request is at fault.
        RpcCode::InvalidArgument | RpcCode::OutOfRange | RpcCode::ResourceExhausted => {
            ErrorCode::InvalidArgument
        }
        RpcCode::DeadlineExceeded => ErrorCode::Timeout,
        RpcCode::Unavailable | RpcCode::Canceled | RpcCode::Aborted => ErrorCode::Unavailable,
        RpcCode::Unauthenticated => ErrorCode::Unauthenticated,
        RpcCode::PermissionDenied => ErrorCode::PermissionDenied,
        RpcCode::FailedPrecondition => ErrorCode::InvalidState,
        _ => ErrorCode::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_wire_with_field_and_hint() {
        let session = SessionId::new("box").unwrap();
        for code in ErrorCode::ALL {
            let sent = Error::new(code, "the message")
                .with_field("a.field")
                .with_hint("do this");
            let wire = to_connect(&sent, Some(&session));
            assert_eq!(wire.code.as_str(), code.rpc_code());
            let received = from_connect(&wire);
            assert_eq!(received.code(), code);
            assert_eq!(received.message(), "the message");
            assert_eq!(
                (received.field(), received.hint()),
                (Some("a.field"), Some("do this"))
            );
        }
    }

    #[test]
    fn error_causes_reach_the_caller() {
        let sent = Error::io("open `x`", std::io::Error::other("disk on fire"));
        assert_eq!(
            from_connect(&to_connect(&sent, None)).message(),
            "open `x`: disk on fire"
        );
    }

    #[test]
    fn error_without_our_detail_is_mapped_by_its_rpc_code() {
        for (rpc, ours) in [
            (RpcCode::Unavailable, ErrorCode::Unavailable),
            (RpcCode::Unauthenticated, ErrorCode::Unauthenticated),
            (RpcCode::Unimplemented, ErrorCode::Internal),
        ] {
            assert_eq!(from_connect(&ConnectError::new(rpc, "x")).code(), ours);
        }
    }
}
