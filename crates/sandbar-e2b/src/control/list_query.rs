//! Which sandboxes somebody wants to be told about, and in which order.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sandbar_core::{SessionId, SessionInfo};

use super::{
    Answer,
    details::state_of,
    fields::bad_request,
    query::{Query, decoded},
};
use crate::{sandbox::SandboxNote, wake::is_there};

/// The most a page has, and what it has when nobody says otherwise.
const PAGE: u64 = 100;

/// Which sandboxes of all to tell about.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    metadata: Vec<Pair>,
    states: BTreeSet<&'static str>,
    started_after: Option<Timestamp>,
    template: Option<String>,
}

/// A name and its value. SDKs up to some version encode both twice and later ones once, and nobody can tell which it was:
/// either reading counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair([(String, String); 2]);

impl Wanted {
    /// What a query of the second version of the call says.
    pub(super) fn read(query: &Query) -> Answer<Self> {
        let mut states = BTreeSet::new();
        for state in query.list("state") {
            states.insert(match state {
                "running" => "running",
                "paused" => "paused",
                other => {
                    return Err(bad_request(format!("`state` is `{}`; use running or paused", other.escape_debug())));
                }
            });
        }
        let started_after = query.text("startedAfter").map(|text| {
            // A plus of an offset that was not encoded arrives as a space.
            text.replace(' ', "+")
                .parse()
                .map_err(|_| bad_request("`startedAfter` is no time; write it like `2026-11-16T02:00:00Z`"))
        });
        Ok(Self {
            metadata: read_metadata(query)?,
            states,
            started_after: started_after.transpose()?,
            template: query.text("template").map(str::to_owned),
        })
    }

    /// What a query of the first version says: sandboxes that run.
    pub(super) fn read_running(query: &Query) -> Answer<Self> {
        Ok(Self { metadata: read_metadata(query)?, states: BTreeSet::from(["running"]), ..Self::default() })
    }

    pub(super) fn wants_running(&self) -> bool {
        self.states.is_empty() || self.states.contains("running")
    }

    pub(super) fn includes(&self, session: &SessionInfo, note: &SandboxNote) -> bool {
        let has = |Pair(readings): &Pair| readings.iter().any(|(name, value)| session.labels.get(name) == Some(value));
        is_there(session.state)
            && (self.states.is_empty() || self.states.contains(state_of(session)))
            && self.metadata.iter().all(has)
            && self.started_after.is_none_or(|moment| session.created >= moment)
            && self.template.as_ref().is_none_or(|name| {
                let plain = name.split(':').next().unwrap_or(name);
                [name.as_str(), plain].contains(&note.template.as_str()) || note.alias.as_deref() == Some(name)
            })
    }
}

/// `k=v&k=v`, with the names and values encoded.
fn read_metadata(query: &Query) -> Answer<Vec<Pair>> {
    let Some(text) = query.text("metadata") else { return Ok(Vec::new()) };
    // The whole of it may be encoded once more.
    let text = if text.contains('=') { text.to_owned() } else { decoded(text) };
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                bad_request(format!("`metadata` has `{}` in it; write `name=value&name=value`", part.escape_debug()))
            })?;
            // Before what SDKs encode, forms encode a space as a plus.
            let plain = |text: &str| text.replace('+', "%20");
            let once = (decoded(&plain(name)), decoded(&plain(value)));
            let twice = (decoded(&once.0), decoded(&once.1));
            Ok(Pair([once, twice]))
        })
        .collect()
}

/// In which order, and which part of it.
#[derive(Clone, Debug)]
pub(super) struct Page {
    oldest_first: bool,
    limit: usize,
    after: Option<Cursor>,
}

/// Where a page ends: the age of its last sandbox, and its name for those of the same age.
type Cursor = (i128, SessionId);

impl Page {
    pub(super) fn read(query: &Query) -> Answer<Self> {
        let oldest_first = match query.text("order") {
            None | Some("desc") => false,
            Some("asc") => true,
            Some(other) => return Err(bad_request(format!("`order` is `{}`; use asc or desc", other.escape_debug()))),
        };
        let limit = usize::try_from(query.number("limit", 1, PAGE)?.unwrap_or(PAGE)).unwrap_or(usize::MAX);
        let after = query.text("nextToken").map(|token| {
            let parts = token.split_once('.').and_then(|(age, id)| Some((age.parse().ok()?, SessionId::new(id).ok()?)));
            parts.ok_or_else(|| bad_request("`nextToken` is none of ours; send `x-next-token` of the page before"))
        });
        Ok(Self { oldest_first, limit, after: after.transpose()? })
    }

    /// This part of them, and what to send for the next one.
    pub(super) fn cut(&self, mut sessions: Vec<SessionInfo>) -> (Vec<SessionInfo>, Option<String>) {
        let place = |session: &SessionInfo| (session.created.as_nanosecond(), session.id.clone());
        sessions.sort_by_key(place);
        if !self.oldest_first {
            sessions.reverse();
        }
        if let Some(after) = &self.after {
            sessions.retain(|session| {
                let own = place(session);
                if self.oldest_first { own > *after } else { own < *after }
            });
        }
        let more = sessions.len() > self.limit;
        sessions.truncate(self.limit);
        let next = sessions.last().filter(|_| more).map(place).map(|(age, id)| format!("{age}.{id}"));
        (sessions, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(query: &str) -> Vec<(String, String)> {
        let pairs = read_metadata(&Query::from(query)).unwrap();
        pairs.into_iter().flat_map(|Pair(readings)| readings).collect()
    }

    #[test]
    fn metadata_is_understood_however_often_it_was_encoded() {
        let meant = ("team/slug!".to_owned(), "hello & 100% 😀".to_owned());
        let once = "metadata=team%252Fslug%21%3Dhello%2520%2526%2520100%2525%2520%25F0%259F%2598%2580";
        let twice =
            "metadata=team%25252Fslug%2521%3Dhello%252520%252526%252520100%252525%252520%2525F0%25259F%252598%252580";
        assert!(readings(once).contains(&meant), "{:?}", readings(once));
        assert!(readings(twice).contains(&meant), "{:?}", readings(twice));
        assert!(readings("metadata=a%3Db").contains(&("a".into(), "b".into())));
        assert!(readings("metadata=user%3Dabc%26app%3Dprod").contains(&("app".into(), "prod".into())));
        assert!(read_metadata(&Query::from("metadata=justaname")).is_err());
    }

    #[test]
    fn what_a_query_cannot_mean_is_refused_by_name() {
        for (query, field) in [("state=gone", "state"), ("startedAfter=soon", "startedAfter")] {
            assert!(format!("{:?}", Wanted::read(&Query::from(query)).unwrap_err()).contains(field), "{query}");
        }
        for (query, field) in
            [("order=up", "order"), ("limit=0", "limit"), ("limit=101", "limit"), ("nextToken=x", "nextToken")]
        {
            assert!(format!("{:?}", Page::read(&Query::from(query)).unwrap_err()).contains(field), "{query}");
        }
        assert!(Wanted::read(&Query::from("startedAfter=2026-11-16T02:00:00+01:00")).is_ok());
    }
}
