//! Compiles the two services of `proto/` without `protoc`: protox parses, connectrpc-build
//! generates.

use std::{env, error::Error, fs, path::PathBuf};

use buffa_codegen::{BytesRepr, CodeGenConfig, MapRepr};

const FILES: [&str; 2] = ["process.proto", "filesystem.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("proto");
    let set = PathBuf::from(env::var("OUT_DIR")?).join("envd.bin");
    println!("cargo:rerun-if-changed={}", root.display());

    let mut compiler = protox::Compiler::new([&root])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(FILES)?;
    fs::write(&set, compiler.encode_file_descriptor_set())?;

    let mut messages = CodeGenConfig::default();
    messages.generate_json = true;
    messages.bytes_fields = vec![(".".into(), BytesRepr::Bytes)];
    messages.map_fields = vec![(".".into(), MapRepr::BTreeMap)];
    connectrpc_build::Config::new()
        .buffa_config(messages)
        .descriptor_set(&set)
        .files(&FILES)
        .emit_rerun_directives(false)
        .include_file("_connectrpc.rs")
        .compile()?;
    Ok(())
}
