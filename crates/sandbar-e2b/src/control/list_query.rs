//! Filters and paging of a listing.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sandbar_core::{SessionId, SessionInfo};

use super::details::state_of;
use crate::{
    rest::{ApiResult, Query, bad_request, decoded},
    sandboxes::{SandboxNote, is_present},
};

/// Largest page, and the default.
const MAX_PAGE_SIZE: u64 = 100;

/// Conditions a listed sandbox has to meet.
#[derive(Clone, Debug, Default)]
pub(super) struct SandboxFilter {
    metadata: Vec<Pair>,
    states: BTreeSet<&'static str>,
    started_after: Option<Timestamp>,
    template: Option<String>,
}

/// Name and value of a metadata filter. Older SDKs percent-encode both twice, newer ones once, and
/// a request does not tell which: a sandbox matches if either decoding does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair([(String, String); 2]);

impl SandboxFilter {
    /// Reads the query of the second version of the call.
    pub(super) fn read(query: &Query) -> ApiResult<Self> {
        let mut states = BTreeSet::new();
        for state in query.list("state") {
            states.insert(match state {
                "running" => "running",
                "paused" => "paused",
                other => {
                    return Err(bad_request(format!(
                        "`state` is `{}`; use running or paused",
                        other.escape_debug()
                    )));
                }
            });
        }
        let started_after = query.text("startedAfter").map(|text| {
            // An offset's `+` that the client did not encode is decoded as a space.
            text.replace(' ', "+").parse().map_err(|_| {
                bad_request(
                    "`startedAfter` is not a timestamp; write it like `2026-11-16T02:00:00Z`",
                )
            })
        });
        Ok(Self {
            metadata: read_metadata(query)?,
            states,
            started_after: started_after.transpose()?,
            template: query.text("template").map(str::to_owned),
        })
    }

    /// Reads the query of the first version, which lists running sandboxes only.
    pub(super) fn read_running(query: &Query) -> ApiResult<Self> {
        Ok(Self {
            metadata: read_metadata(query)?,
            states: BTreeSet::from(["running"]),
            ..Self::default()
        })
    }

    pub(super) fn wants_running(&self) -> bool {
        self.states.is_empty() || self.states.contains("running")
    }

    pub(super) fn includes(&self, session: &SessionInfo, note: &SandboxNote) -> bool {
        let has = |Pair(readings): &Pair| {
            readings
                .iter()
                .any(|(name, value)| session.labels.get(name) == Some(value))
        };
        is_present(session.state)
            && (self.states.is_empty() || self.states.contains(state_of(session)))
            && self.metadata.iter().all(has)
            && self
                .started_after
                .is_none_or(|moment| session.created >= moment)
            && self.template.as_ref().is_none_or(|name| {
                let plain = name.split(':').next().unwrap_or(name);
                [name.as_str(), plain].contains(&note.template.as_str())
                    || note.alias.as_deref() == Some(name)
            })
    }
}

/// Reads `metadata`: `name=value&name=value`, percent-encoded.
fn read_metadata(query: &Query) -> ApiResult<Vec<Pair>> {
    let Some(text) = query.text("metadata") else {
        return Ok(Vec::new());
    };
    // The whole value may be encoded once more.
    let text = if text.contains('=') {
        text.to_owned()
    } else {
        decoded(text)
    };
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                bad_request(format!(
                    "`metadata` has `{}` in it; write `name=value&name=value`",
                    part.escape_debug()
                ))
            })?;
            // Form encoding writes a space as `+`, beneath the percent-encoding.
            let plain = |text: &str| text.replace('+', "%20");
            let once = (decoded(&plain(name)), decoded(&plain(value)));
            let twice = (decoded(&once.0), decoded(&once.1));
            Ok(Pair([once, twice]))
        })
        .collect()
}

/// Order and position of a page.
#[derive(Clone, Debug)]
pub(super) struct Page {
    oldest_first: bool,
    limit: usize,
    after: Option<Cursor>,
}

/// End of a page: creation time and id of its last sandbox.
type Cursor = (i128, SessionId);

impl Page {
    pub(super) fn read(query: &Query) -> ApiResult<Self> {
        let oldest_first = match query.text("order") {
            None | Some("desc") => false,
            Some("asc") => true,
            Some(other) => {
                return Err(bad_request(format!(
                    "`order` is `{}`; use asc or desc",
                    other.escape_debug()
                )));
            }
        };
        let limit = usize::try_from(
            query
                .number("limit", 1, MAX_PAGE_SIZE)?
                .unwrap_or(MAX_PAGE_SIZE),
        )
        .unwrap_or(usize::MAX);
        let after = query.text("nextToken").map(|token| {
            let parts = token
                .split_once('.')
                .and_then(|(age, id)| Some((age.parse().ok()?, SessionId::new(id).ok()?)));
            parts.ok_or_else(|| {
                bad_request("`nextToken` is not valid; send `x-next-token` of the previous page")
            })
        });
        Ok(Self {
            oldest_first,
            limit,
            after: after.transpose()?,
        })
    }

    /// Returns the sandboxes of this page, and the token of the next one.
    pub(super) fn cut(&self, mut sessions: Vec<SessionInfo>) -> (Vec<SessionInfo>, Option<String>) {
        let cursor = |session: &SessionInfo| (session.created.as_nanosecond(), session.id.clone());
        sessions.sort_by_key(cursor);
        if !self.oldest_first {
            sessions.reverse();
        }
        if let Some(after) = &self.after {
            sessions.retain(|session| {
                let own = cursor(session);
                if self.oldest_first {
                    own > *after
                } else {
                    own < *after
                }
            });
        }
        let more = sessions.len() > self.limit;
        sessions.truncate(self.limit);
        let next = sessions
            .last()
            .filter(|_| more)
            .map(cursor)
            .map(|(age, id)| format!("{age}.{id}"));
        (sessions, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(query: &str) -> Vec<(String, String)> {
        let pairs = read_metadata(&Query::from(query)).unwrap();
        pairs
            .into_iter()
            .flat_map(|Pair(readings)| readings)
            .collect()
    }

    #[test]
    fn metadata_is_decoded_once_or_twice() {
        let meant = ("team/slug!".to_owned(), "hello & 100% 😀".to_owned());
        let once =
            "metadata=team%252Fslug%21%3Dhello%2520%2526%2520100%2525%2520%25F0%259F%2598%2580";
        let twice = "metadata=team%25252Fslug%2521%3Dhello%252520%252526%252520100%252525%252520%2525F0%25259F%252598%252580";
        assert!(readings(once).contains(&meant), "{:?}", readings(once));
        assert!(readings(twice).contains(&meant), "{:?}", readings(twice));
        assert!(readings("metadata=a%3Db").contains(&("a".into(), "b".into())));
        assert!(
            readings("metadata=user%3Dabc%26app%3Dprod").contains(&("app".into(), "prod".into()))
        );
        assert!(read_metadata(&Query::from("metadata=justaname")).is_err());
    }

    #[test]
    fn invalid_query_value_is_refused_by_name() {
        for (query, field) in [
            ("state=gone", "state"),
            ("startedAfter=soon", "startedAfter"),
        ] {
            assert!(
                format!(
                    "{:?}",
                    SandboxFilter::read(&Query::from(query)).unwrap_err()
                )
                .contains(field),
                "{query}"
            );
        }
        for (query, field) in [
            ("order=up", "order"),
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("nextToken=x", "nextToken"),
        ] {
            assert!(
                format!("{:?}", Page::read(&Query::from(query)).unwrap_err()).contains(field),
                "{query}"
            );
        }
        assert!(
            SandboxFilter::read(&Query::from("startedAfter=2026-11-16T02:00:00+01:00")).is_ok()
        );
    }
}
