//! `e2b` and `@e2b/code-interpreter` from npm.

use std::process::Command;

use sandbar_testing::require_node_modules;

use crate::host::{Mode, drive, file};

fn run(version: &str, mode: Mode) {
    let mut program = Command::new("node");
    program
        .arg(file("js/run.mjs"))
        .arg(require_node_modules(&format!("e2b/js-{version}")));
    drive(mode, program);
}

/// Tests of one version: one in each mode.
macro_rules! version {
    ($name:ident, $version:literal) => {
        mod $name {
            use super::{Mode, run};

            #[test]
            fn sdk_in_plain_mode_passes() {
                run($version, Mode::Plain);
            }

            #[test]
            fn sdk_in_domain_mode_passes() {
                run($version, Mode::Domain);
            }
        }
    };
}

version!(v2_7, "2.7");
version!(v2_10, "2.10");
version!(v2_20, "2.20");
version!(v2_30, "2.30");
version!(v2_45, "2.45");
version!(newest, "newest");
