//! The second gate: every call of the API passes here on its way to its handler.

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
use crate::failure::failed;

/// Calls, each behind what it takes.
///
/// This stands between the protocols and the handlers, whichever protocol it is and also for `GET`: a new call cannot
/// come past it, and one that has no rule is refused. Which session a call is about is read here, from the same bytes and
/// by the same decoder as in the handler, so that the two cannot be made to see different ones.
#[derive(Debug)]
pub(crate) struct Guarded<D> {
    calls: Arc<D>,
}

impl<D> Guarded<D> {
    pub(crate) fn new(calls: D) -> Self {
        Self { calls: Arc::new(calls) }
    }
}

impl<D: Dispatcher> Dispatcher for Guarded<D> {
    fn lookup(&self, path: &str) -> Option<MethodDescriptor> {
        self.calls.lookup(path)
    }

    fn call_unary(&self, path: &str, ctx: RequestContext, request: Payload, format: CodecFormat) -> UnaryResult {
        let admitted = look(path, &ctx).and_then(|question| match question {
            Some(question) => question.ask(&ctx, &request.encoded()?, format),
            None => Ok(()),
        });
        match admitted {
            Ok(()) if rules::waits_for_a_session(path) => {
                ends_with_token(&ctx.clone(), self.calls.call_unary(path, ctx, request, format))
            }
            // It is done in a moment; and who takes their own token back is to hear that it worked.
            Ok(()) => self.calls.call_unary(path, ctx, request, format),
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
        let admitted = look(path, &ctx).and_then(|question| match question {
            Some(question) => question.ask(&ctx, &request, format),
            None => Ok(()),
        });
        match admitted {
            Ok(()) => {
                stream_ends_with_token(&ctx.clone(), self.calls.call_server_streaming(path, ctx, request, format))
            }
            Err(error) => refused_stream(error),
        }
    }

    fn call_client_streaming(
        &self,
        path: &str,
        ctx: RequestContext,
        requests: RequestStream,
        format: CodecFormat,
    ) -> UnaryResult {
        match look(path, &ctx) {
            Ok(None) => ends_with_token(&ctx.clone(), self.calls.call_client_streaming(path, ctx, requests, format)),
            Ok(Some(question)) => {
                let (calls, path, outer) = (Arc::clone(&self.calls), path.to_owned(), ctx.clone());
                let call = async move {
                    let requests = question.ask_first(&ctx, requests, format).await?;
                    calls.call_client_streaming(&path, ctx, requests, format).await
                };
                ends_with_token(&outer, call.boxed())
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
        match look(path, &ctx) {
            Ok(None) => {
                stream_ends_with_token(&ctx.clone(), self.calls.call_bidi_streaming(path, ctx, requests, format))
            }
            Ok(Some(question)) => {
                let (calls, path, outer) = (Arc::clone(&self.calls), path.to_owned(), ctx.clone());
                let call = async move {
                    match question.ask_first(&ctx, requests, format).await {
                        Ok(requests) => calls.call_bidi_streaming(&path, ctx, requests, format).await,
                        Err(error) => refused_stream(error).await,
                    }
                };
                stream_ends_with_token(&outer, call.boxed())
            }
            Err(error) => refused_stream(error),
        }
    }
}

/// What is still to be found out: whether the session of the request is one of the caller's.
struct Question {
    session_of: SessionOf,
    need: fn(&SessionId) -> Need<'_>,
}

/// Compares what a call takes with what its caller may do, as far as that does not depend on the request.
fn look(path: &str, ctx: &RequestContext) -> Result<Option<Question>, ConnectError> {
    let caller = Caller::of(ctx)?;
    let require = |need| caller.require(need).map(|()| None).map_err(failed);
    match rules::of_call(path) {
        None => Err(failed(Error::internal(format!("nobody has said who may call `{path}`, so nobody may")))),
        Some(Rule::AnyToken) => require(Need::AnyToken),
        Some(Rule::Admin) => require(Need::Admin),
        Some(Rule::ReadSession(_)) if caller.grant().may(Need::Read) => Ok(None),
        Some(Rule::UseSession(_)) if caller.grant().may(Need::Admin) => Ok(None),
        Some(Rule::ReadSession(session_of)) => {
            Ok(Some(Question { session_of, need: |session| Need::ReadSession(session) }))
        }
        Some(Rule::UseSession(session_of)) => {
            Ok(Some(Question { session_of, need: |session| Need::UseSession(session) }))
        }
    }
}

impl Question {
    fn ask(&self, ctx: &RequestContext, request: &Bytes, format: CodecFormat) -> Result<(), ConnectError> {
        let session = (self.session_of)(request, format, ctx.decode_options())?;
        let caller = Caller::of(ctx)?;
        match SessionId::new(session) {
            Ok(session) => caller.require((self.need)(&session)).map_err(failed),
            // One that cannot exist is nobody's.
            Err(error) => Err(failed(
                Error::new(
                    ErrorCode::PermissionDenied,
                    "this call names no session, and the token is for sessions only",
                )
                .with_field("session_id")
                .with_hint("name a session of the token in the first message")
                .with_source(error),
            )),
        }
    }

    /// As [`ask`](Self::ask), about the first message of a stream. Those after it name no session.
    async fn ask_first(
        &self,
        ctx: &RequestContext,
        mut requests: RequestStream,
        format: CodecFormat,
    ) -> Result<RequestStream, ConnectError> {
        let first = requests.next().await.transpose()?;
        self.ask(ctx, first.as_ref().unwrap_or(&Bytes::new()), format)?;
        Ok(stream::iter(first.map(Ok)).chain(requests).boxed())
    }
}

/// In the stream, where gRPC carries our detail too.
fn refused_stream(error: ConnectError) -> StreamingResult {
    future::ready(Ok(Response::new(stream::iter([Err(error)]).boxed()))).boxed()
}

/// A call ends with the token it was made with.
fn ends_with_token(ctx: &RequestContext, call: UnaryResult) -> UnaryResult {
    let Some(end) = Caller::of(ctx).ok().and_then(Caller::end) else { return call };
    async move {
        tokio::select! {
            biased;
            why = end => Err(failed(why)),
            outcome = call => outcome,
        }
    }
    .boxed()
}

/// As [`ends_with_token`], also after the answer has begun.
fn stream_ends_with_token(ctx: &RequestContext, call: StreamingResult) -> StreamingResult {
    let Some(end) = Caller::of(ctx).ok().and_then(Caller::end) else { return call };
    let mut end = end.boxed();
    async move {
        let response = tokio::select! {
            biased;
            why = &mut end => return refused_stream(failed(why)).await,
            response = call => response?,
        };
        Ok(response.map_body(|answers| {
            stream::unfold(Some((answers, end)), |state| async {
                let (mut answers, mut end) = state?;
                tokio::select! {
                    biased;
                    why = &mut end => Some((Err(failed(why)), None)),
                    answer = answers.next() => Some((answer?, Some((answers, end)))),
                }
            })
            .boxed()
        }))
    }
    .boxed()
}
