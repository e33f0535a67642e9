//! What every command is told of its sandbox: the variables its maker gave it, and those programs of E2B look at.

use std::collections::BTreeMap;

use axum::Extension;
use sandbar_core::SessionId;

use crate::{json::Json, sandbox::SandboxNote, visitor::Visitor};

/// `GET /envs`.
pub(super) async fn envs(Extension(visitor): Extension<Visitor>) -> Json<BTreeMap<String, String>> {
    let mut env = visitor.note.env.clone();
    tell(&mut env, &visitor);
    Json(env)
}

/// Variables of E2B that nobody has set otherwise.
pub(crate) fn variables<'a>(
    session: &'a SessionId,
    note: &'a SandboxNote,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let all =
        [("E2B_SANDBOX", "true"), ("E2B_SANDBOX_ID", session.as_str()), ("E2B_TEMPLATE_ID", note.template.as_str())];
    all.into_iter().filter(|(name, _)| !note.env.contains_key(*name))
}

/// Adds them to what a command is given.
pub(super) fn tell(env: &mut BTreeMap<String, String>, visitor: &Visitor) {
    for (name, value) in variables(&visitor.session, &visitor.note) {
        env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
}

/// Takes them away again: nobody has asked for them.
pub(super) fn forget(env: &mut BTreeMap<String, String>, visitor: &Visitor) {
    for (name, value) in variables(&visitor.session, &visitor.note) {
        if env.get(name).is_some_and(|set| set == value) {
            env.remove(name);
        }
    }
}
