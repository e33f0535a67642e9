//! Limit on concurrent calls of one token.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use axum::body::{Body, Bytes, HttpBody};
use connectrpc::http_body::{Frame, SizeHint};
use sandbar_core::{Error, ErrorCode, MutexExt as _, Result};

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
    pub(super) fn acquire(&self, caller: &Arc<str>) -> Result<CallPermit> {
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
pub(super) struct CallPermit {
    caller: Arc<str>,
    limit: ConcurrencyLimit,
}

impl CallPermit {
    /// Keeps the permit until the response body was sent or dropped.
    pub(super) fn hold_for(self, body: Body) -> Body {
        Body::new(PermitBody {
            body,
            _permit: self,
        })
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

/// Response body that owns the permit of its call.
#[derive(Debug)]
struct PermitBody {
    body: Body,
    _permit: CallPermit,
}

impl HttpBody for PermitBody {
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
    use super::*;

    #[test]
    fn permit_is_released_when_the_response_body_is_dropped() {
        let limit = ConcurrencyLimit::new(2);
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let first = limit.acquire(&one).unwrap();
        let second = limit.acquire(&one).unwrap().hold_for(Body::from("answer"));
        let error = limit.acquire(&one).unwrap_err();
        assert_eq!(
            (error.code(), error.code().rpc_code()),
            (ErrorCode::TooManyCalls, "resource_exhausted")
        );
        assert!(error.hint().is_some());
        drop(limit.acquire(&other).unwrap());
        drop(second);
        drop(limit.acquire(&one).unwrap());
        drop(first);
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
