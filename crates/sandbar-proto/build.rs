//! Compiles `proto/sandbar/v1` without `protoc`: protox parses, connectrpc-build generates.

use std::{env, error::Error, fs, path::PathBuf};

use buffa_codegen::{BytesRepr, CodeGenConfig, MapRepr};

const FILES: [&str; 14] = [
    "audit",
    "bases",
    "errors",
    "events",
    "exec",
    "files",
    "host",
    "network",
    "processes",
    "service",
    "sessions",
    "snapshots",
    "tokens",
    "tools",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed={}", root.display());

    let files = FILES.map(|name| format!("sandbar/v1/{name}.proto"));
    let mut compiler = protox::Compiler::new([&root])?;
    // Comments become documentation of the generated types.
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(&files)?;
    let set = out.join("sandbar.v1.bin");
    fs::write(&set, compiler.encode_file_descriptor_set())?;

    let mut messages = CodeGenConfig::default();
    messages.generate_json = true;
    // File and output bytes pass through without a copy; maps keep one order on the wire.
    messages.bytes_fields = vec![(".".into(), BytesRepr::Bytes)];
    messages.map_fields = vec![(".".into(), MapRepr::BTreeMap)];
    connectrpc_build::Config::new()
        .buffa_config(messages)
        .descriptor_set(&set)
        .files(&files)
        .emit_rerun_directives(false)
        .include_file("_connectrpc.rs")
        .compile()?;
    Ok(())
}
