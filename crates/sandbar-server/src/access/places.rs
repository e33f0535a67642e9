//! How many calls one token may have under way.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::body::{Body, Bytes, HttpBody};
use connectrpc::http_body::{Frame, SizeHint};
use sandbar_core::{Error, ErrorCode, Result};

/// Calls under way, by caller.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// 0 is any number.
    most: usize,
    taken: Arc<Mutex<HashMap<Arc<str>, usize>>>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Takes a place for one call, until it is dropped.
    pub(super) fn take(&self, caller: &Arc<str>) -> Result<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(Arc::clone(caller)).or_default();
        if self.most > 0 && *count >= self.most {
            return Err(Error::new(
                ErrorCode::TooManyCalls,
                format!("{caller} has {count} calls under way, which is the most"),
            )
            .with_hint("wait until some have ended, use another token, or raise `max_calls_per_token`"));
        }
        *count += 1;
        Ok(Place { caller: Arc::clone(caller), places: self.clone() })
    }
}

/// A call under way.
#[derive(Debug)]
pub(super) struct Place {
    caller: Arc<str>,
    places: Places,
}

impl Place {
    /// The call is under way until its answer was sent.
    pub(super) fn keep_for(self, body: Body) -> Body {
        Body::new(Held { body, _place: self })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.caller) {
            *count -= 1;
            // Nothing is kept of tokens nobody uses.
            if *count == 0 {
                taken.remove(&self.caller);
            }
        }
    }
}

/// The body of an answer, and the place of its call.
#[derive(Debug)]
struct Held {
    body: Body,
    _place: Place,
}

impl HttpBody for Held {
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
    fn a_place_is_free_again_when_the_answer_is_gone() {
        let places = Places::new(2);
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let first = places.take(&one).unwrap();
        let second = places.take(&one).unwrap().keep_for(Body::from("answer"));
        let error = places.take(&one).unwrap_err();
        assert_eq!((error.code(), error.code().rpc_code()), (ErrorCode::TooManyCalls, "resource_exhausted"));
        assert!(error.hint().is_some());
        drop(places.take(&other).unwrap());
        drop(second);
        drop(places.take(&one).unwrap());
        drop(first);
        assert!(places.taken.lock().unwrap().is_empty());
    }

    #[test]
    fn no_limit_is_no_limit() {
        let places = Places::new(0);
        let held: Vec<Place> = (0..2000).map(|_| places.take(&"one".into()).unwrap()).collect();
        assert_eq!(held.len(), 2000);
    }
}
