//! All attempts, grouped by the part of the boundary they attack.

mod control;
mod devices;
mod environment;
mod filesystem;
mod ipc;
mod kernel;
mod keyrings;
mod knobs;
mod limits;
mod mounts;
mod namespaces;
mod network;
mod paths;
mod privileges;
mod processes;
mod sockets;
mod system;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::attempt::{Attempt, Family};

pub(crate) const ALL: &[Family] = &[
    paths::FAMILY,
    mounts::FAMILY,
    devices::FAMILY,
    processes::FAMILY,
    limits::FAMILY,
    environment::FAMILY,
    ipc::FAMILY,
    keyrings::FAMILY,
    sockets::FAMILY,
    network::FAMILY,
    namespaces::FAMILY,
    privileges::FAMILY,
    filesystem::FAMILY,
    kernel::FAMILY,
    #[cfg(target_arch = "x86_64")]
    x86::FAMILY,
    system::FAMILY,
    knobs::FAMILY,
    control::FAMILY,
];

pub(crate) fn find(name: &str) -> Option<&'static Attempt> {
    ALL.iter()
        .flat_map(|family| family.attempts)
        .find(|attempt| attempt.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn attempts_have_unique_names_and_success_conditions() {
        let mut names = BTreeSet::new();
        for attempt in ALL.iter().flat_map(|family| family.attempts) {
            assert!(
                names.insert(attempt.name),
                "duplicate name {}",
                attempt.name
            );
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(attempt.name.chars().all(plain), "{}", attempt.name);
            assert!(
                attempt.description.contains("; escaped when "),
                "{}: {}",
                attempt.name,
                attempt.description
            );
        }
        assert!(names.len() >= 80, "{} attempts", names.len());
    }
}
