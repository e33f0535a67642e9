//! Fuzzing entry point for the parsers of kernel files.

use super::{
    controllers::{Controller, v1_hierarchy_in},
    group::keyed_number,
};

/// Parses the input as a mount table and as a flat-keyed cgroup file.
pub fn cgroup_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for controller in Controller::ALL {
        let _ = v1_hierarchy_in(controller, &text);
    }
    let _ = keyed_number(&text, "populated");
}
