//! From the host's errors to the caller's.

use connectrpc::ConnectError;
use sandbar_core::{Error, ErrorCode, SessionId};
use sandbar_proto::to_connect;

/// The error of a call that is not about one session.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` calls")]
pub(crate) fn failed(error: Error) -> ConnectError {
    report(&error);
    to_connect(&error, None)
}

/// The error of a call about a session.
pub(crate) fn failed_in(session: &SessionId) -> impl Fn(Error) -> ConnectError + Clone + use<> {
    let session = session.clone();
    move |error| {
        report(&error);
        to_connect(&error, Some(&session))
    }
}

/// Faults of ours are for the operator too; everything else is the caller's business.
fn report(error: &Error) {
    if error.code() == ErrorCode::Internal {
        tracing::error!(error = error.chain(), "a call failed");
    }
}
