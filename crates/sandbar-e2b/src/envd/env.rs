//! Environment variables of commands: those of the creator, and those E2B sets.

use std::collections::BTreeMap;

use axum::Extension;

use crate::{auth::SessionCaller, rest::Json, sandboxes::variables};

/// `GET /envs`.
pub(super) async fn list(
    Extension(caller): Extension<SessionCaller>,
) -> Json<BTreeMap<String, String>> {
    let mut env = caller.note.env.clone();
    add(&mut env, &caller);
    Json(env)
}

/// Adds E2B's variables to the environment of a command.
pub(super) fn add(env: &mut BTreeMap<String, String>, caller: &SessionCaller) {
    for (name, value) in variables(&caller.session, &caller.note) {
        env.entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }
}

/// Removes E2B's variables: a listing shows only those of the request.
pub(super) fn remove(env: &mut BTreeMap<String, String>, caller: &SessionCaller) {
    for (name, value) in variables(&caller.session, &caller.note) {
        if env.get(name).is_some_and(|set| set == value) {
            env.remove(name);
        }
    }
}
