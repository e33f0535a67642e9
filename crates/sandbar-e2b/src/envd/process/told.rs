//! What every command is told of its sandbox, in variables programs of E2B look at.

use std::collections::BTreeMap;

use crate::visitor::Visitor;

/// The variables of a sandbox that nobody has set otherwise.
fn variables(visitor: &Visitor) -> impl Iterator<Item = (&'static str, &str)> {
    let all = [
        ("E2B_SANDBOX", "true"),
        ("E2B_SANDBOX_ID", visitor.session.as_str()),
        ("E2B_TEMPLATE_ID", visitor.note.template.as_str()),
    ];
    all.into_iter().filter(|(name, _)| !visitor.note.env.contains_key(*name))
}

/// Adds them to what a command is given.
pub(super) fn tell(env: &mut BTreeMap<String, String>, visitor: &Visitor) {
    for (name, value) in variables(visitor) {
        env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
}

/// Takes them away again: nobody has asked for them.
pub(super) fn forget(env: &mut BTreeMap<String, String>, visitor: &Visitor) {
    for (name, value) in variables(visitor) {
        if env.get(name).is_some_and(|set| set == value) {
            env.remove(name);
        }
    }
}
