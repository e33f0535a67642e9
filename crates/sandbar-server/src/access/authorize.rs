//! Authorisation of RPCs.

use std::sync::Arc;

use bytes::Bytes;
use connectrpc::{
    CodecFormat, ConnectError, Dispatcher, MethodDescriptor, Payload, RequestContext, Response,
    dispatcher::{RequestStream, StreamingResult, UnaryResult},
};
use futures::{FutureExt as _, StreamExt as _, future, stream};
use sandbar_core::{Error, ErrorCode, Need, SessionId};

use super::{
    Caller,
    rules::{self, Rule, SessionOf},
};
use crate::rpc::errors::failed;

/// Dispatcher that checks the access rule of a call before it forwards to `inner`.
///
/// Every protocol, and `GET` as well, dispatches through this type: a new call cannot bypass it,
/// and a call without a rule is denied. The session id is decoded from the same bytes and with the
/// same decoder as in the handler, so that both see the same session.
#[derive(Debug)]
pub(crate) struct Authorizer<D> {
    inner: Arc<D>,
}

impl<D> Authorizer<D> {
    pub(crate) fn new(inner: D) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }
}

impl<D: Dispatcher> Dispatcher for Authorizer<D> {
    fn lookup(&self, path: &str) -> Option<MethodDescriptor> {
        self.inner.lookup(path)
    }

    fn call_unary(
        &self,
        path: &str,
        ctx: RequestContext,
        request: Payload,
        format: CodecFormat,
    ) -> UnaryResult {
        let admitted = static_check(path, &ctx).and_then(|check| match check {
            Some(check) => check.check(&ctx, &request.encoded()?, format),
            None => Ok(()),
        });
        match admitted {
            Ok(()) if rules::waits_for_session(path) => end_with_token(
                &ctx.clone(),
                self.inner.call_unary(path, ctx, request, format),
            ),
            // Short calls run to their end, so that a caller that revokes its own token gets the
            // response.
            Ok(()) => self.inner.call_unary(path, ctx, request, format),
            Err(error) => future::ready(Err(error)).boxed(),
        }
    }

    fn call_server_streaming(
        &self,
        path: &str,
        ctx: RequestContext,
        request: Bytes,
        format: CodecFormat,
    ) -> StreamingResult {
        let admitted = static_check(path, &ctx).and_then(|check| match check {
            Some(check) => check.check(&ctx, &request, format),
            None => Ok(()),
        });
        match admitted {
            Ok(()) => end_stream_with_token(
                &ctx.clone(),
                self.inner.call_server_streaming(path, ctx, request, format),
            ),
            Err(error) => error_stream(error),
        }
    }

    fn call_client_streaming(
        &self,
        path: &str,
        ctx: RequestContext,
        requests: RequestStream,
        format: CodecFormat,
    ) -> UnaryResult {
        match static_check(path, &ctx) {
            Ok(None) => end_with_token(
                &ctx.clone(),
                self.inner
                    .call_client_streaming(path, ctx, requests, format),
            ),
            Ok(Some(check)) => {
                let (inner, path, outer) = (Arc::clone(&self.inner), path.to_owned(), ctx.clone());
                let call = async move {
                    let requests = check.check_first(&ctx, requests, format).await?;
                    inner
                        .call_client_streaming(&path, ctx, requests, format)
                        .await
                };
                end_with_token(&outer, call.boxed())
            }
            Err(error) => future::ready(Err(error)).boxed(),
        }
    }

    fn call_bidi_streaming(
        &self,
        path: &str,
        ctx: RequestContext,
        requests: RequestStream,
        format: CodecFormat,
    ) -> StreamingResult {
        match static_check(path, &ctx) {
            Ok(None) => end_stream_with_token(
                &ctx.clone(),
                self.inner.call_bidi_streaming(path, ctx, requests, format),
            ),
            Ok(Some(check)) => {
                let (inner, path, outer) = (Arc::clone(&self.inner), path.to_owned(), ctx.clone());
                let call = async move {
                    match check.check_first(&ctx, requests, format).await {
                        Ok(requests) => {
                            inner
                                .call_bidi_streaming(&path, ctx, requests, format)
                                .await
                        }
                        Err(error) => error_stream(error).await,
                    }
                };
                end_stream_with_token(&outer, call.boxed())
            }
            Err(error) => error_stream(error),
        }
    }
}

/// Check that needs the request: whether the caller's scopes cover the session it names.
struct SessionCheck {
    session_of: SessionOf,
    need: fn(&SessionId) -> Need<'_>,
}

/// Checks the rule of a call as far as it does not depend on the request. Returns the check that is
/// left to do once the session id is known.
fn static_check(path: &str, ctx: &RequestContext) -> Result<Option<SessionCheck>, ConnectError> {
    let caller = Caller::of(ctx)?;
    let require = |need| caller.require(need).map(|()| None).map_err(failed);
    match rules::for_call(path) {
        None => Err(failed(Error::internal(format!(
            "call `{path}` has no access rule and is denied"
        )))),
        Some(Rule::AnyToken) => require(Need::AnyToken),
        Some(Rule::Admin) => require(Need::Admin),
        Some(Rule::ReadSession(_)) if caller.grant().may(Need::Read) => Ok(None),
        Some(Rule::UseSession(_)) if caller.grant().may(Need::Admin) => Ok(None),
        Some(Rule::ReadSession(session_of)) => Ok(Some(SessionCheck {
            session_of,
            need: |session| Need::ReadSession(session),
        })),
        Some(Rule::UseSession(session_of)) => Ok(Some(SessionCheck {
            session_of,
            need: |session| Need::UseSession(session),
        })),
    }
}

impl SessionCheck {
    fn check(
        &self,
        ctx: &RequestContext,
        request: &Bytes,
        format: CodecFormat,
    ) -> Result<(), ConnectError> {
        let session = (self.session_of)(request, format, ctx.decode_options())?;
        let caller = Caller::of(ctx)?;
        match SessionId::new(session) {
            Ok(session) => caller.require((self.need)(&session)).map_err(failed),
            // No scope can name an invalid id.
            Err(error) => Err(failed(
                Error::new(
                    ErrorCode::PermissionDenied,
                    "session id missing or invalid, and the access token is limited to sessions",
                )
                .with_field("session_id")
                .with_hint(
                    "send the id of a session that the token has a scope for in the first message",
                )
                .with_source(error),
            )),
        }
    }

    /// Like [`check`](Self::check), for the first message of a stream. Later messages name no
    /// session.
    async fn check_first(
        &self,
        ctx: &RequestContext,
        mut requests: RequestStream,
        format: CodecFormat,
    ) -> Result<RequestStream, ConnectError> {
        let first = requests.next().await.transpose()?;
        self.check(ctx, first.as_ref().unwrap_or(&Bytes::new()), format)?;
        Ok(stream::iter(first.map(Ok)).chain(requests).boxed())
    }
}

/// Puts an error into the response stream: gRPC carries error details only there.
fn error_stream(error: ConnectError) -> StreamingResult {
    future::ready(Ok(Response::new(stream::iter([Err(error)]).boxed()))).boxed()
}

/// Ends a call when its token expires or is revoked.
fn end_with_token(ctx: &RequestContext, call: UnaryResult) -> UnaryResult {
    let Some(end) = Caller::of(ctx).ok().and_then(Caller::token_end) else {
        return call;
    };
    async move {
        tokio::select! {
            biased;
            reason = end => Err(failed(reason)),
            outcome = call => outcome,
        }
    }
    .boxed()
}

/// Like [`end_with_token`], also after the response has begun.
fn end_stream_with_token(ctx: &RequestContext, call: StreamingResult) -> StreamingResult {
    let Some(end) = Caller::of(ctx).ok().and_then(Caller::token_end) else {
        return call;
    };
    let mut end = end.boxed();
    async move {
        let response = tokio::select! {
            biased;
            reason = &mut end => return error_stream(failed(reason)).await,
            response = call => response?,
        };
        Ok(response.map_body(|answers| {
            stream::unfold(Some((answers, end)), |state| async {
                let (mut answers, mut end) = state?;
                tokio::select! {
                    biased;
                    reason = &mut end => Some((Err(failed(reason)), None)),
                    answer = answers.next() => Some((answer?, Some((answers, end)))),
                }
            })
            .boxed()
        }))
    }
    .boxed()
}
