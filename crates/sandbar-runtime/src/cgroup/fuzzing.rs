//! A way to the files of the kernel for the fuzzer.

use super::{
    controllers::{Controller, hierarchy_of},
    group::keyed_number,
};

/// The mount table, and a file of keys and numbers.
pub fn cgroup_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for controller in Controller::ALL {
        let _ = hierarchy_of(controller, &text);
    }
    let _ = keyed_number(&text, "populated");
}
