//! Limit on concurrent calls of one token.
//!
//! The dispatcher gives every request a [`CallSlot`], whatever surface it is for. The surface takes
//! it once the caller is known, and the dispatcher holds it until the response has ended.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::Request,
};
use connectrpc::http_body::{Frame, SizeHint};
use sandbar_core::{Error, ErrorCode, MutexExt as _, Need, Result};
use sandbar_e2b::CallOwner;

use crate::http::{Registration, RequestInProgress, Standing};

/// Counts running calls by caller, and limits them.
#[derive(Clone, Debug)]
pub(crate) struct ConcurrencyLimit {
    /// 0 means no limit.
    max_calls: usize,
    running: Arc<Mutex<HashMap<Arc<str>, usize>>>,
}

impl ConcurrencyLimit {
    pub(crate) fn new(max_calls: usize) -> Self {
        Self {
            max_calls,
            running: Arc::default(),
        }
    }

    /// Counts one more call of `caller` until the permit is dropped; `TooManyCalls` at the limit.
    fn acquire(&self, caller: &Arc<str>) -> Result<CallPermit> {
        let mut running = self.running.lock_unpoisoned();
        let count = running.entry(Arc::clone(caller)).or_default();
        if self.max_calls > 0 && *count >= self.max_calls {
            return Err(Error::new(
                ErrorCode::TooManyCalls,
                format!("{caller} is at its limit of {count} concurrent calls"),
            )
            .with_hint(
                "wait for calls to end, use another token, or raise `max_calls_per_token`",
            ));
        }
        *count += 1;
        Ok(CallPermit {
            caller: Arc::clone(caller),
            limit: self.clone(),
        })
    }
}

/// Permit of one running call.
#[derive(Debug)]
struct CallPermit {
    caller: Arc<str>,
    limit: ConcurrencyLimit,
}

/// Slot of one request, in its extensions. Also the request's entry at its connection.
#[derive(Clone, Debug)]
pub(crate) struct CallSlot(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    limit: ConcurrencyLimit,
    connection: Weak<Registration>,
    call: Mutex<Call>,
}

/// A call in progress: its permit, once the caller is known.
#[derive(Debug, Default)]
pub(crate) struct Call {
    permit: Option<CallPermit>,
    _request: Option<RequestInProgress>,
}

impl CallSlot {
    /// Opens the slot of a request that has arrived on `connection`.
    pub(crate) fn open(limit: ConcurrencyLimit, connection: &Arc<Registration>) -> Self {
        Self(Arc::new(Slot {
            limit,
            connection: Arc::downgrade(connection),
            call: Mutex::new(Call {
                permit: None,
                _request: Some(connection.request()),
            }),
        }))
    }

    /// Returns the slot of a request.
    pub(crate) fn of<B>(request: &Request<B>) -> Result<&Self> {
        request
            .extensions()
            .get()
            .ok_or_else(|| Error::internal("request has no call slot"))
    }

    /// Takes the call out of the slot, to be held by a task that outlives the response.
    pub(crate) fn detach(&self) -> Call {
        std::mem::take(&mut *self.0.call.lock_unpoisoned())
    }

    /// Returns a guard that ends the call when it is dropped, unless the call was detached.
    pub(crate) fn guard(&self) -> CallGuard {
        CallGuard(self.clone())
    }
}

impl sandbar_e2b::CallSlot for CallSlot {
    /// Takes the slot; again without effect, as MCP passes on its slot to the calls it makes.
    fn take(&self, owner: CallOwner<'_>) -> Result<()> {
        let mut call = self.0.call.lock_unpoisoned();
        if call.permit.is_some() {
            return Ok(());
        }
        let (name, standing): (Arc<str>, _) = match owner {
            CallOwner::Token { name, grant } if grant.may(Need::Admin) => {
                (Arc::clone(name), Standing::Admin)
            }
            CallOwner::Token { name, .. } => (Arc::clone(name), Standing::Token),
            CallOwner::Session(id) => (format!("session:{id}").into(), Standing::Token),
            CallOwner::Visitor(id) => (
                format!("callers without a token at `{id}`").into(),
                Standing::Visitor,
            ),
            CallOwner::TemplateUpload => ("template uploads".into(), Standing::Token),
        };
        let permit = self.0.limit.acquire(&name)?;
        if let Some(connection) = self.0.connection.upgrade() {
            connection.assign(&name, standing)?;
        }
        call.permit = Some(permit);
        Ok(())
    }
}

/// Ends a call when it is dropped.
#[derive(Debug)]
pub(crate) struct CallGuard(CallSlot);

impl CallGuard {
    /// Keeps the call in progress until the response body was sent or dropped.
    pub(crate) fn hold_for(self, body: Body) -> Body {
        Body::new(HeldBody { body, _call: self })
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        drop(self.0.detach());
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut running = self.limit.running.lock_unpoisoned();
        if let Some(count) = running.get_mut(&self.caller) {
            *count -= 1;
            // Bounds the map by the number of tokens in use.
            if *count == 0 {
                running.remove(&self.caller);
            }
        }
    }
}

/// Response body that keeps its call in progress.
#[derive(Debug)]
struct HeldBody {
    body: Body,
    _call: CallGuard,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use sandbar_core::Grant;
    use sandbar_e2b::CallSlot as _;

    use super::*;
    use crate::http::Connections;

    fn take(slot: &CallSlot, name: &Arc<str>) -> Result<()> {
        let grant = Grant::admin();
        slot.take(CallOwner::Token {
            name,
            grant: &grant,
        })
    }

    #[test]
    fn permit_is_released_when_the_response_body_is_dropped() {
        let limit = ConcurrencyLimit::new(2);
        let connections = Connections::new(4);
        let connection = connections.admit([127, 0, 0, 1].into()).unwrap();
        let open = || CallSlot::open(limit.clone(), &connection.registration);
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let first = open();
        take(&first, &one).unwrap();
        take(&first, &one).unwrap();
        let slot = open();
        take(&slot, &one).unwrap();
        let second = slot.guard().hold_for(Body::from("answer"));
        let error = take(&open(), &one).unwrap_err();
        assert_eq!(
            (error.code(), error.code().rpc_code()),
            (ErrorCode::TooManyCalls, "resource_exhausted")
        );
        assert!(error.hint().is_some());
        take(&open(), &other).unwrap();
        drop(second);
        take(&open(), &one).unwrap();
        // A tunnel outlives the response.
        let tunnel = first.detach();
        drop(first.guard());
        assert_eq!(limit.running.lock().unwrap()[&one], 1);
        drop(tunnel);
        assert!(limit.running.lock().unwrap().is_empty());
    }

    #[test]
    fn limit_of_zero_admits_any_number_of_calls() {
        let limit = ConcurrencyLimit::new(0);
        let held: Vec<CallPermit> = (0..2000)
            .map(|_| limit.acquire(&"one".into()).unwrap())
            .collect();
        assert_eq!(held.len(), 2000);
    }
}
