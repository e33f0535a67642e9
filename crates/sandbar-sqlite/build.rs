//! Finds the static SQLite of this machine.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CC");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    // A compiler that does not find the file prints its bare name.
    let found = Command::new(&compiler)
        .arg("-print-file-name=libsqlite3.a")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    let library = Path::new(&found);
    let Some(directory) = library.parent().filter(|directory| directory.is_absolute()) else {
        panic!("libsqlite3.a is missing; install it with `apt-get install libsqlite3-dev` (or run `make setup`)");
    };
    println!("cargo:rustc-link-search=native={}", directory.display());
    println!("cargo:rustc-link-lib=static=sqlite3");
    println!("cargo:rustc-link-lib=m");
}
