//! Responses of tool calls, stored so that a repeated call does not execute the tool again.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use sandbar_core::{
    ContentBlock, Error, Result, SessionId, SnapshotName, ToolCallId, ToolResponse, ToolTier,
};
use serde::{Deserialize, Serialize};

use super::{StateStore, from_json, to_json};

/// Limits for the stored responses of a session. Beyond them the oldest are deleted; the newest is
/// always kept.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    calls: i64,
    bytes: i64,
}

impl Bounds {
    /// Whether the limits are exceeded, by an eighth for the number of calls: deletion scans all
    /// rows of the session, so it must not follow each response.
    fn are_exceeded(self, calls: i64, bytes: i64) -> bool {
        calls > self.calls + self.calls / 8 || bytes > self.bytes
    }
}

const BOUNDS: Bounds = Bounds {
    calls: 1000,
    bytes: 32 << 20,
};

/// A stored response. The serialised format must stay compatible.
#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "as in the answer")]
struct StoredResponse {
    content: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blocks: Vec<StoredBlock>,
    exit_code: Option<i32>,
    snapshot: Option<SnapshotName>,
    nanoseconds: u64,
    tier: u32,
    is_error: bool,
    timed_out: bool,
    oom_killed: bool,
    truncated: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum StoredBlock {
    Text {
        text: String,
    },
    /// Data in base64.
    Image {
        media_type: String,
        data: String,
    },
}

impl From<&ToolResponse> for StoredResponse {
    fn from(response: &ToolResponse) -> Self {
        let blocks = response.content_blocks.iter().map(|block| match block {
            ContentBlock::Text(text) => StoredBlock::Text { text: text.clone() },
            ContentBlock::Image { media_type, data } => StoredBlock::Image {
                media_type: media_type.clone(),
                data: STANDARD.encode(data),
            },
        });
        Self {
            content: response.content.clone(),
            blocks: blocks.collect(),
            exit_code: response.exit_code,
            snapshot: response.snapshot_id.clone(),
            nanoseconds: u64::try_from(response.duration.as_nanos()).unwrap_or(u64::MAX),
            tier: response.tier.number(),
            is_error: response.is_error,
            timed_out: response.timed_out,
            oom_killed: response.oom_killed,
            truncated: response.truncated,
        }
    }
}

impl TryFrom<StoredResponse> for ToolResponse {
    type Error = Error;

    fn try_from(stored: StoredResponse) -> Result<Self> {
        let unreadable = || Error::internal("tool response in the state database is invalid");
        let blocks = stored.blocks.into_iter().map(|block| match block {
            StoredBlock::Text { text } => Ok(ContentBlock::Text(text)),
            StoredBlock::Image { media_type, data } => {
                let data = STANDARD
                    .decode(data)
                    .map_err(|error| unreadable().with_source(error))?;
                Ok(ContentBlock::Image {
                    media_type,
                    data: data.into(),
                })
            }
        });
        Ok(Self {
            content: stored.content,
            content_blocks: blocks.collect::<Result<_>>()?,
            exit_code: stored.exit_code,
            snapshot_id: stored.snapshot,
            duration: Duration::from_nanos(stored.nanoseconds),
            tier: ToolTier::from_number(stored.tier).ok_or_else(unreadable)?,
            is_error: stored.is_error,
            timed_out: stored.timed_out,
            oom_killed: stored.oom_killed,
            truncated: stored.truncated,
        })
    }
}

impl StateStore {
    /// Returns the stored response of a call, if there is one.
    pub(crate) fn tool_answer(
        &self,
        session: &SessionId,
        call: &ToolCallId,
    ) -> Result<Option<ToolResponse>> {
        let sql = "SELECT answer FROM tool_call WHERE session = ?1 AND call = ?2";
        let key = [session.as_str(), call.as_str()];
        let stored = self.with(|database| database.query_optional(sql, key, |row| row.text(0)))?;
        stored
            .map(|text| from_json::<StoredResponse>(&text)?.try_into())
            .transpose()
    }

    /// Stores the response of a call and deletes the oldest ones beyond the limits.
    pub(crate) fn keep_tool_answer(
        &self,
        session: &SessionId,
        call: &ToolCallId,
        tool: &str,
        response: &ToolResponse,
    ) -> Result<()> {
        self.keep_within(BOUNDS, session, call, tool, response)
    }

    fn keep_within(
        &self,
        bounds: Bounds,
        session: &SessionId,
        call: &ToolCallId,
        tool: &str,
        response: &ToolResponse,
    ) -> Result<()> {
        let answer = to_json(&StoredResponse::from(response))?;
        let size = i64::try_from(answer.len()).unwrap_or(i64::MAX);
        self.transaction(|database| {
            let sql = "INSERT INTO tool_call (session, call, tool, answer, size, made) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                       ON CONFLICT (session, call) DO UPDATE SET answer = excluded.answer, size = excluded.size";
            let made = Timestamp::now().as_second();
            database.execute(sql, (session.as_str(), call.as_str(), tool, answer, size, made))?;
            let sql = "SELECT count(*), sum(size) FROM tool_call WHERE session = ?1";
            let kept = database.query_optional(sql, [session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if !kept.is_some_and(|(calls, bytes)| bounds.are_exceeded(calls, bytes)) {
                return Ok(());
            }
            let sql = "DELETE FROM tool_call WHERE number IN ( \
                           SELECT number FROM ( \
                               SELECT number, \
                                   row_number() OVER newest AS place, \
                                   sum(size) OVER newest AS bytes \
                               FROM tool_call WHERE session = ?1 WINDOW newest AS (ORDER BY number DESC) \
                           ) WHERE place > 1 AND (place > ?2 OR bytes > ?3))";
            database.execute(sql, (session.as_str(), bounds.calls, bounds.bytes)).map(|_| ())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sandbar_core::{BaseName, Labels, Resources, SessionState};

    use super::*;
    use crate::state::{SessionRecord, delete_session};

    fn store(directory: &tempfile::TempDir) -> StateStore {
        StateStore::open(&directory.path().join("state.db")).unwrap()
    }

    fn session(store: &StateStore, name: &str) -> SessionId {
        let id = SessionId::new(name).unwrap();
        let record = SessionRecord {
            id: id.clone(),
            state: SessionState::Active,
            base: BaseName::new("small").unwrap(),
            ground: None,
            labels: Labels::new(),
            resources: Resources::default(),
            env: BTreeMap::new(),
            network: None,
            quota: None,
            created: Timestamp::now(),
            expires: None,
            on_expiry: sandbar_core::OnExpiry::default(),
            idle_timeout: None,
            root_rights: sandbar_core::RootRights::Bare,
            pack: None,
            turns: 0,
            parent: None,
            head: None,
        };
        store
            .transaction(|database| record.insert(database))
            .unwrap();
        id
    }

    fn answer(content: &str) -> ToolResponse {
        ToolResponse {
            content: content.to_owned(),
            content_blocks: vec![
                ContentBlock::Text("t".into()),
                ContentBlock::Image {
                    media_type: "image/png".into(),
                    data: vec![0, 255, 7].into(),
                },
            ],
            exit_code: Some(-3),
            snapshot_id: Some(SnapshotName::new("tool-1").unwrap()),
            duration: Duration::from_nanos(1_234_567_891),
            tier: ToolTier::Sandbox,
            is_error: true,
            timed_out: false,
            oom_killed: true,
            truncated: true,
        }
    }

    fn call(id: &str) -> ToolCallId {
        ToolCallId::new(id).unwrap()
    }

    #[test]
    fn stored_response_is_read_as_written() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        let (one, other) = (session(&store, "one"), session(&store, "other"));
        store
            .keep_tool_answer(&one, &call("a"), "bash", &answer("x"))
            .unwrap();
        assert_eq!(
            store.tool_answer(&one, &call("a")).unwrap(),
            Some(answer("x"))
        );
        assert_eq!(store.tool_answer(&one, &call("b")).unwrap(), None);
        assert_eq!(store.tool_answer(&other, &call("a")).unwrap(), None);
        store
            .transaction(|database| delete_session(database, &one))
            .unwrap();
        assert_eq!(store.tool_answer(&one, &call("a")).unwrap(), None);
    }

    #[test]
    fn oldest_responses_are_deleted_beyond_the_limits() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        let (busy, quiet) = (session(&store, "busy"), session(&store, "quiet"));
        let keep = |session: &SessionId, id: &str, content: &str| {
            store
                .keep_within(
                    Bounds {
                        calls: 5,
                        bytes: 10_000,
                    },
                    session,
                    &call(id),
                    "bash",
                    &answer(content),
                )
                .unwrap();
        };
        let kept = |session: &SessionId, id: &str| {
            store.tool_answer(session, &call(id)).unwrap().is_some()
        };
        keep(&quiet, "0", "kept");
        for number in 0..6 {
            keep(&busy, &number.to_string(), "");
        }
        assert!(!kept(&busy, "0") && kept(&busy, "1") && kept(&busy, "5"));
        for large in ["l1", "l2", "l3"] {
            keep(&busy, large, &"x".repeat(4500));
        }
        assert!(!kept(&busy, "5") && !kept(&busy, "l1") && kept(&busy, "l2") && kept(&busy, "l3"));
        keep(&busy, "huge", &"x".repeat(20_000));
        assert!(!kept(&busy, "l3") && kept(&busy, "huge") && kept(&quiet, "0"));
    }
}
