//! The program is copied into the base of every test of the escape suite: without debug information
//! it is less than half the size.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--strip-debug");
}
