//! Checks of the suite itself: it is complete, and it detects escapes.

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use sandbar_testing::Intruder;

use crate::{
    case::{Case, Subject, check_family, held},
    world::World,
};

const TABLES: &[(&str, &[Case])] = &[
    ("control", crate::control::CASES),
    ("devices", crate::devices::CASES),
    ("environment", crate::environment::CASES),
    ("filesystem", crate::filesystem::CASES),
    ("ipc", crate::ipc::CASES),
    ("kernel", crate::kernel::CASES),
    ("keyrings", crate::keyrings::CASES),
    ("knobs", crate::knobs::CASES),
    ("limits", crate::limits::CASES),
    ("mounts", crate::mounts::CASES),
    ("namespaces", crate::namespaces::CASES),
    ("network", crate::network::CASES),
    ("paths", crate::paths::CASES),
    ("privileges", crate::privileges::CASES),
    ("processes", crate::processes::CASES),
    ("sockets", crate::sockets::CASES),
    ("system", crate::system::CASES),
    #[cfg(target_arch = "x86_64")]
    ("x86", crate::x86::CASES),
];

#[test]
fn every_attempt_is_in_the_table_of_its_family() {
    let tables = TABLES.iter().flat_map(|(family, cases)| {
        cases
            .iter()
            .map(|case| (case.attempt.to_owned(), (*family).to_owned()))
    });
    assert_eq!(
        tables.collect::<BTreeMap<_, _>>(),
        Intruder::find().attempts()
    );
}

/// Attempts that succeed with the runtime without isolation. Only those at objects of the test
/// itself: nothing isolates the intruder from this machine.
const OPEN_WITHOUT_ISOLATION: &[&str] = &[
    "path-proc-host-pid-root",
    "mount-tmpfs",
    "mount-bind",
    "node-null",
    "host-pid-visible",
    "host-pid-signal",
    "host-pid-handle",
    "host-pid-read-memory",
    "limit-priority",
    "ipc-shared-memory",
    "ipc-message-queue",
    "key-read",
    "socket-abstract",
    "socket-take-descriptor",
    "socket-loopback",
    "network-raw",
    "unshare-mount",
    "capabilities",
    "no-new-privileges",
    "seccomp-filter",
    "attribute-trusted",
    "bpf-map",
    "file-lease",
];

#[test]
fn suite_without_isolation_sees_escapes() {
    let mut world = World::open(Subject::None);
    let held: Vec<(&str, String)> = OPEN_WITHOUT_ISOLATION
        .iter()
        .map(|attempt| (*attempt, world.attempt(attempt)))
        .filter(|(_, said)| !said.starts_with("ESCAPED: "))
        .collect();
    assert!(held.is_empty(), "{held:#?}");
}

#[test]
fn attempt_that_escapes_fails_its_test() {
    let alone = || held("capabilities").check(Subject::None);
    // After one that is held.
    let in_its_family = || check_family(&[held("path-plain"), held("capabilities")], Subject::None);
    for test in [&alone as &dyn Fn(), &in_its_family] {
        let failure = std::panic::catch_unwind(AssertUnwindSafe(test)).unwrap_err();
        let message = failure.downcast_ref::<String>().unwrap();
        assert!(message.starts_with("capabilities: ESCAPED: "), "{message}");
    }
}

// What even the runtime without isolation promises: an explicit environment, three descriptors, a
// base that stays.
in_box! { none, Subject::None,
    path_of_a_host_file_leads_nowhere: held("path-plain"),
    nothing_is_above_the_root: held("path-dot-dot"),
    environment_holds_no_secret_of_the_host: held("environment-secret"),
    environment_holds_no_variable_of_the_host: held("environment-variables"),
    only_the_standard_streams_are_open: held("descriptors-inherited"),
    no_descriptor_is_a_socket: held("descriptors-sockets"),
    no_descriptor_is_a_directory: held("descriptors-directories"),
    no_inherited_directory_leads_out: held("path-inherited-directory"),
    working_directory_is_below_the_root: held("working-directory-outside"),
    write_does_not_reach_the_base: held("base-write"),
    emptying_a_file_does_not_reach_the_base: held("base-truncate"),
    appending_does_not_reach_the_base: held("base-append"),
    write_through_a_hard_link_does_not_reach_the_base: held("base-hard-link"),
    rename_over_a_file_does_not_reach_the_base: held("base-replace"),
    deletion_does_not_reach_the_base: held("base-delete"),
    write_through_shared_memory_does_not_reach_the_base: held("base-map"),
    descriptor_opened_again_does_not_reach_the_base: held("base-reopen"),
    change_of_mode_and_times_does_not_reach_the_base: held("base-metadata"),
    attribute_does_not_reach_the_base: held("base-attribute"),
    private_mapping_is_not_written_through: held("base-private-memory"),
    pipe_does_not_write_the_page_cache: held("base-dirty-pipe"),
}
