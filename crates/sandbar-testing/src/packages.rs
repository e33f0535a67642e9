//! Packages that `scripts/setup-clients.sh` installs from PyPI and npm.

use std::path::{Path, PathBuf};

/// Returns the path of an installed file, which `path` names below the cache. Panics when it is
/// missing: setup fails if it cannot install a package, so a test never runs without one.
pub fn require_installed(path: &str) -> PathBuf {
    installed(path).unwrap_or_else(|| {
        panic!(
            "`{path}` is missing below `{}`: run `make setup-tests`",
            cache().display()
        )
    })
}

/// Returns the `node_modules` directory that setup made at `directory` below the cache. Panics when
/// it is missing.
pub fn require_node_modules(directory: &str) -> PathBuf {
    // Setup writes it last: an incomplete installation does not count.
    require_installed(&format!("{directory}/.installed")).with_file_name("node_modules")
}

/// Returns the path of an installed file by its path below the cache, if it exists.
pub fn installed(path: &str) -> Option<PathBuf> {
    let path = cache().join(path);
    path.exists().then_some(path)
}

/// Returns the path of a file of the shared Python environment, if it exists.
pub fn installed_python(file: &str) -> Option<PathBuf> {
    installed(&format!("python/{file}"))
}

fn cache() -> PathBuf {
    Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache/sandbar")
}
