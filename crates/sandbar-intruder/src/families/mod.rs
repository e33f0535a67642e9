//! Every attempt, grouped by the part of the boundary it goes for.

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
    ALL.iter().flat_map(|family| family.attempts).find(|attempt| attempt.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_attempt_has_a_name_of_its_own_and_says_what_success_looks_like() {
        let mut names = BTreeSet::new();
        for attempt in ALL.iter().flat_map(|family| family.attempts) {
            assert!(names.insert(attempt.name), "{} is there twice", attempt.name);
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(attempt.name.chars().all(plain), "{}", attempt.name);
            assert!(attempt.tries.contains("; escaped when "), "{}: {}", attempt.name, attempt.tries);
        }
        assert!(names.len() >= 80, "{} attempts", names.len());
    }
}
