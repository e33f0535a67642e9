//! The CA bundle of a session whose TLS is inspected.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use sandbar_runtime::{CA_BUNDLE_PATHS, Trust};
use sandbar_tree::SessionTree;

/// Size up to which a bundle is accepted. The file is the session's and thus untrusted.
const MAX_BUNDLE_BYTES: u64 = 8 << 20;

/// Returns the CA bundle of the tree, or else of this machine, with the session CA added.
pub(super) fn trust(tree: &SessionTree, authority: &str) -> Trust {
    let absolute = |path: &str| Path::new("/").join(path);
    let own = CA_BUNDLE_PATHS
        .iter()
        .find_map(|path| bundle(tree.open_file(&absolute(path)).ok()?.0).ok());
    let mut bundle = own
        .or_else(|| bundle(File::open(absolute(CA_BUNDLE_PATHS[0])).ok()?).ok())
        .unwrap_or_default();
    if !bundle.is_empty() && !bundle.ends_with('\n') {
        bundle.push('\n');
    }
    bundle.push_str(authority);
    Trust {
        authority: authority.to_owned(),
        bundle,
    }
}

fn bundle(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_BUNDLE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BUNDLE_BYTES || !text.contains("-----BEGIN") {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";

    fn of(make: impl FnOnce(&Path)) -> String {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/ssl/certs")).unwrap();
        make(root.path());
        let trust = trust(&SessionTree::open(root.path(), None).unwrap(), AUTHORITY);
        assert_eq!(trust.authority, AUTHORITY);
        assert!(trust.bundle.ends_with(AUTHORITY), "{}", trust.bundle);
        trust.bundle[..trust.bundle.len() - AUTHORITY.len()].to_owned()
    }

    #[test]
    fn bundle_of_the_tree_precedes_that_of_the_machine() {
        let theirs = "-----BEGIN CERTIFICATE-----\ntheirs\n-----END CERTIFICATE-----";
        let path = |root: &Path| root.join("etc/ssl/certs/ca-certificates.crt");
        assert_eq!(
            of(|root| fs::write(path(root), theirs).unwrap()),
            format!("{theirs}\n")
        );
        assert_eq!(
            of(|root| fs::write(root.join("etc/ssl/cert.pem"), theirs).unwrap()),
            format!("{theirs}\n")
        );
        let machine = of(|_| {});
        // Rejects a file without certificates, and a symbolic link out of the tree.
        assert_eq!(
            of(|root| fs::write(path(root), "nothing").unwrap()),
            machine
        );
        assert_eq!(
            of(|root| symlink("/etc/passwd", path(root)).unwrap()),
            machine
        );
        assert_eq!(of(|root| fs::create_dir(path(root)).unwrap()), machine);
    }
}
