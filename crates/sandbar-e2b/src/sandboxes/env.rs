//! Environment variables that E2B sets in every sandbox.

use sandbar_core::SessionId;

use super::SandboxNote;

/// Returns the variables of E2B that the creator of the sandbox has not set.
pub(crate) fn variables<'a>(
    session: &'a SessionId,
    note: &'a SandboxNote,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let all = [
        ("E2B_SANDBOX", "true"),
        ("E2B_SANDBOX_ID", session.as_str()),
        ("E2B_TEMPLATE_ID", note.template.as_str()),
    ];
    all.into_iter()
        .filter(|(name, _)| !note.env.contains_key(*name))
}
