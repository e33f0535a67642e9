//! The sources of the guest server, compiled into the host binary.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value};

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("guest/", $path)))),*]
    };
}

/// Bootstrap script: reads the bundle from a file descriptor and runs the named module.
pub(crate) const START: &str = include_str!("guest/start.py");

const SOURCES: [(&str, &str); 26] = sources![
    "bash/main.bash",
    "java/Main.java",
    "node/acorn.js",
    "node/main.js",
    "node/source.js",
    "node/tokens.js",
    "node/types.js",
    "node/typescript.js",
    "r/main.R",
    "sandbar_kernel/cells.py",
    "sandbar_kernel/charts.py",
    "sandbar_kernel/display.py",
    "sandbar_kernel/failure.py",
    "sandbar_kernel/formatters.py",
    "sandbar_kernel/hooks.py",
    "sandbar_kernel/magics.py",
    "sandbar_kernel/main.py",
    "sandbar_kernel/plain.py",
    "sandbar_kernel/pretty.py",
    "sandbar_kernel/rich.py",
    "sandbar_kernel/shell.py",
    "sandbar_kernel/streams.py",
    "sandbar_server/context.py",
    "sandbar_server/http.py",
    "sandbar_server/kernel.py",
    "sandbar_server/main.py",
];

/// Returns all sources as one JSON object from path to text.
pub(crate) fn bundle() -> Bytes {
    static BUNDLE: LazyLock<Bytes> = LazyLock::new(|| {
        let sources = SOURCES.into_iter().chain([("start.py", START)]);
        let sources: Map<_, _> = sources
            .map(|(path, text)| (path.to_owned(), Value::from(text)))
            .collect();
        Bytes::from(Value::Object(sources).to_string())
    });
    BUNDLE.clone()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;

    fn files(directory: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, root, found);
            } else if path.extension().is_some_and(|kind| {
                ["py", "js", "bash", "java", "R"]
                    .iter()
                    .any(|known| kind == *known)
            }) {
                found.insert(
                    path.strip_prefix(root)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }

    #[test]
    fn bundle_contains_every_guest_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guest");
        let mut found = BTreeSet::new();
        files(&root, &root, &mut found);
        let bundle: Map<String, Value> = serde_json::from_slice(&bundle()).unwrap();
        assert_eq!(bundle.keys().cloned().collect::<BTreeSet<_>>(), found);
    }
}
