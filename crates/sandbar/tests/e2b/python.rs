//! `e2b` and `e2b-code-interpreter` from PyPI.

use std::process::Command;

use sandbar_testing::require_installed;

use crate::host::{Mode, drive, file};

fn run(version: &str, mode: Mode, style: &str) {
    let mut program = Command::new(require_installed(&format!(
        "e2b/python-{version}/bin/python3"
    )));
    program
        .arg(file("python/run.py"))
        .args(["--style", style])
        .env("PYTHONDONTWRITEBYTECODE", "1");
    drive(mode, program);
}

/// Tests of one version: each style in each mode.
macro_rules! version {
    ($name:ident, $version:literal) => {
        mod $name {
            use super::{Mode, run};

            #[test]
            fn sync_sdk_in_plain_mode_passes() {
                run($version, Mode::Plain, "sync");
            }

            #[test]
            fn async_sdk_in_plain_mode_passes() {
                run($version, Mode::Plain, "async");
            }

            #[test]
            fn sync_sdk_in_domain_mode_passes() {
                run($version, Mode::Domain, "sync");
            }

            #[test]
            fn async_sdk_in_domain_mode_passes() {
                run($version, Mode::Domain, "async");
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
