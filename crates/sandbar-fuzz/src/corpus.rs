//! Inputs worth keeping.

use std::{fs, path::Path};

use sandbar_fuzz::LONGEST;

/// The inputs of a directory, shortest first.
pub(crate) fn load(directory: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut inputs: Vec<Vec<u8>> =
        entries.filter_map(|entry| fs::read(entry.path()).ok()).filter(|input| input.len() <= LONGEST).collect();
    inputs.sort_by_key(Vec::len);
    inputs
}

/// Keeps an input under a name made of its content.
pub(crate) fn keep(directory: &Path, kind: &str, input: &[u8]) -> std::io::Result<std::path::PathBuf> {
    fs::create_dir_all(directory)?;
    let path = directory.join(format!("{kind}{:016x}", fingerprint(input)));
    fs::write(&path, input)?;
    Ok(path)
}

/// FNV, which is enough to tell files apart.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
