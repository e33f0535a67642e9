//! The state database, in SQLite: sessions, snapshots, processes, notes, saved bases, intents,
//! responses of tool calls, secrets, hashes of tokens, and audit logs.

mod audit;
mod database;
mod intents;
mod notes;
mod processes;
mod records;
mod saved_bases;
mod schema;
mod secrets;
mod store;
mod tokens;
mod tool_calls;

use database::{Database, Row};
pub(crate) use intents::{Intent, IntentId};
pub(crate) use records::{
    SessionRecord, delete_session, delete_snapshot, insert_snapshot, set_head, set_pack, set_turns,
};
pub(crate) use saved_bases::{Ground, SavedBaseRecord};
pub(crate) use store::StateStore;
use store::{from_json, to_json};
