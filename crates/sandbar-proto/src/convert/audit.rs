//! Audit log messages.

use sandbar_core::{
    Actor, AuditEntry, AuditOrder, AuditQuery, AuditVerdict, Error, Result, SessionId,
};

use super::{
    json::{pack_object, unpack_object},
    page::{pack_page, unpack_page},
    scalar::{known, pack_time, unpack_time},
};
use crate::v1;

impl v1::AuditRequest {
    pub fn new(session: &SessionId, query: &AuditQuery) -> Self {
        let (page_size, page_token) = pack_page(&query.page);
        Self {
            session_id: session.as_str().to_owned(),
            order: match query.order {
                AuditOrder::OldestFirst => v1::AuditOrder::OldestFirst,
                AuditOrder::NewestFirst => v1::AuditOrder::NewestFirst,
            }
            .into(),
            after: query.after,
            page_size,
            page_token,
            ..Default::default()
        }
    }

    /// Returns the session and the query.
    pub fn unpack(self) -> Result<(SessionId, AuditQuery)> {
        let session = SessionId::new(self.session_id)?;
        let order = match known("order", self.order)? {
            v1::AuditOrder::AUDIT_ORDER_UNSPECIFIED | v1::AuditOrder::AUDIT_ORDER_OLDEST_FIRST => {
                AuditOrder::OldestFirst
            }
            v1::AuditOrder::AUDIT_ORDER_NEWEST_FIRST => AuditOrder::NewestFirst,
        };
        Ok((
            session,
            AuditQuery {
                order,
                after: self.after,
                page: unpack_page(self.page_size, self.page_token)?,
            },
        ))
    }
}

impl From<AuditEntry> for v1::AuditEntry {
    fn from(entry: AuditEntry) -> Self {
        Self {
            number: entry.number,
            session_id: entry.session.into(),
            at: pack_time(entry.at),
            who: entry.who.as_str().to_owned(),
            what: entry.what,
            outcome: entry.outcome,
            detail: pack_object(&entry.detail).into(),
            chain: entry.chain,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::AuditEntry> for AuditEntry {
    type Error = Error;

    fn try_from(wire: v1::AuditEntry) -> Result<Self> {
        Ok(Self {
            number: wire.number,
            session: SessionId::new(wire.session_id)?,
            at: unpack_time("at", wire.at)?,
            who: Actor::new(&wire.who)?,
            what: wire.what,
            outcome: wire.outcome,
            detail: unpack_object("detail", wire.detail)?,
            chain: wire.chain,
        })
    }
}

impl From<AuditVerdict> for v1::VerifyAuditResponse {
    fn from(verdict: AuditVerdict) -> Self {
        match verdict {
            AuditVerdict::Intact { entries, head } => Self {
                entries,
                head: head.unwrap_or_default(),
                ..Default::default()
            },
            AuditVerdict::Broken { number } => Self {
                broken_at: Some(number),
                ..Default::default()
            },
        }
    }
}

impl From<v1::VerifyAuditResponse> for AuditVerdict {
    fn from(wire: v1::VerifyAuditResponse) -> Self {
        match wire.broken_at {
            Some(number) => Self::Broken { number },
            None => Self::Intact {
                entries: wire.entries,
                head: if wire.head.is_empty() {
                    None
                } else {
                    Some(wire.head)
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sandbar_core::PageRequest;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn audit_entry_survives_the_wire() {
        let Value::Object(detail) =
            json!({"argv": ["ls", "-l"], "exit_code": 3, "nested": {"a": null}})
        else {
            panic!("not an object")
        };
        let entry = AuditEntry {
            number: 1 << 40,
            session: SessionId::new("box").unwrap(),
            at: Timestamp::new(1_700_000_000, 123_000_000).unwrap(),
            who: Actor::new("token:0a1b2c3d@127.0.0.1").unwrap(),
            what: "exec".into(),
            outcome: "SessionPaused".into(),
            detail,
            chain: "00ff".into(),
        };
        assert_eq!(
            AuditEntry::try_from(v1::AuditEntry::from(entry.clone())).unwrap(),
            entry
        );
    }

    #[test]
    fn audit_query_and_verdict_survive_the_wire() {
        let session = SessionId::new("box").unwrap();
        for query in [
            AuditQuery::default(),
            AuditQuery {
                order: AuditOrder::NewestFirst,
                after: Some(0),
                page: PageRequest {
                    size: 1000,
                    token: Some("t".into()),
                },
            },
        ] {
            assert_eq!(
                v1::AuditRequest::new(&session, &query).unpack().unwrap(),
                (session.clone(), query)
            );
        }
        for verdict in [
            AuditVerdict::Intact {
                entries: 0,
                head: None,
            },
            AuditVerdict::Intact {
                entries: 7,
                head: Some("00ff".into()),
            },
            AuditVerdict::Broken { number: 0 },
        ] {
            assert_eq!(
                AuditVerdict::from(v1::VerifyAuditResponse::from(verdict.clone())),
                verdict
            );
        }
    }
}
