//! Errors shared by all backends.

use sandbar_core::{BaseName, Error, ErrorCode, SessionId, SnapshotName};

/// Names an error lists before it says "and more".
const LISTED: usize = 8;

fn listing<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = names[..names.len().min(LISTED)].join("`, `");
    match names.len() {
        0 => "none".into(),
        count if count > LISTED => format!("`{shown}` and {} more", count - LISTED),
        _ => format!("`{shown}`"),
    }
}

/// Returns the error for a tree with a path that no system call takes.
pub(crate) fn path_too_long() -> Error {
    Error::new(
        ErrorCode::InvalidState,
        "session has a directory whose path is longer than 4095 bytes",
    )
    .with_hint("remove it: `find / -xdev -mindepth 100` lists deep directories")
}

pub fn base_not_found<'a>(name: &BaseName, known: impl Iterator<Item = &'a BaseName>) -> Error {
    let known = listing(known.map(BaseName::as_str));
    Error::new(
        ErrorCode::BaseNotFound,
        format!("base `{name}` does not exist"),
    )
    .with_field("base_snapshot")
    .with_hint(format!(
        "bases here: {known}; add one with `sandbar base import {name} SOURCE`"
    ))
}

pub fn base_exists(name: &BaseName) -> Error {
    Error::new(
        ErrorCode::BaseExists,
        format!("base `{name}` exists already"),
    )
    .with_field("name")
    .with_hint(format!(
        "choose another name, or remove it with `sandbar base rm {name}`"
    ))
}

pub(crate) fn base_in_use<'a>(
    name: &BaseName,
    users: impl Iterator<Item = &'a SessionId>,
) -> Error {
    let users = listing(users.map(SessionId::as_str));
    Error::new(
        ErrorCode::InvalidState,
        format!("base `{name}` is in use by sessions {users}"),
    )
    .with_field("name")
    .with_hint("destroy these sessions first")
}

pub(crate) fn volume_exists(volume: &SessionId) -> Error {
    Error::new(
        ErrorCode::SessionExists,
        format!("session `{volume}` exists already"),
    )
    .with_field("session_id")
    .with_hint("choose another id, or leave it out for a random one")
}

pub(crate) fn volume_not_found(volume: &SessionId) -> Error {
    Error::new(
        ErrorCode::SessionNotFound,
        format!("session `{volume}` has no volume"),
    )
    .with_session(volume)
    .with_field("session_id")
}

pub(crate) fn snapshot_exists(volume: &SessionId, name: &SnapshotName) -> Error {
    Error::new(
        ErrorCode::SnapshotExists,
        format!("snapshot `{name}` of session `{volume}` exists already"),
    )
    .with_field("snapshot")
    .with_hint("choose another name")
}

pub fn snapshot_not_found<'a>(
    volume: &SessionId,
    name: &SnapshotName,
    known: impl Iterator<Item = &'a SnapshotName>,
) -> Error {
    let known = listing(known.map(SnapshotName::as_str));
    Error::new(
        ErrorCode::SnapshotNotFound,
        format!("session `{volume}` has no snapshot `{name}`"),
    )
    .with_field("snapshot")
    .with_hint(format!("its snapshots: {known}"))
}

pub(crate) fn quota_unsupported(reason: &str) -> Error {
    Error::invalid("quota", format!("storage cannot enforce a quota: {reason}")).with_hint(
        "leave the quota out, or use a storage backend that has one (see `sandbar doctor`)",
    )
}
