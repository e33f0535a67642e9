//! Which certificates a session trusts whose TLS is looked into.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use sandbar_runtime::Trust;
use sandbar_storage::SessionTree;

/// Where trees keep their bundle: Debian, Fedora, openSUSE, Alpine.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// No bundle of certificates is larger; a file of a session that is, is none.
const LARGEST: u64 = 8 << 20;

/// What the tree trusts by itself, or else this machine, and the authority of the session.
pub(super) fn trust(tree: &SessionTree, authority: &str) -> Trust {
    let own = BUNDLES.iter().find_map(|path| bundle(tree.open_file(Path::new(path)).ok()?.0).ok());
    let mut bundle = own.or_else(|| bundle(File::open(BUNDLES[0]).ok()?).ok()).unwrap_or_default();
    if !bundle.is_empty() && !bundle.ends_with('\n') {
        bundle.push('\n');
    }
    bundle.push_str(authority);
    Trust { authority: authority.to_owned(), bundle }
}

fn bundle(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST || !text.contains("-----BEGIN") {
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
    fn the_bundle_of_the_tree_counts_and_else_that_of_this_machine() {
        let theirs = "-----BEGIN CERTIFICATE-----\ntheirs\n-----END CERTIFICATE-----";
        let path = |root: &Path| root.join("etc/ssl/certs/ca-certificates.crt");
        assert_eq!(of(|root| fs::write(path(root), theirs).unwrap()), format!("{theirs}\n"));
        assert_eq!(of(|root| fs::write(root.join("etc/ssl/cert.pem"), theirs).unwrap()), format!("{theirs}\n"));
        let machine = of(|_| {});
        // Neither what is no bundle nor what leads out of the tree is taken for one.
        assert_eq!(of(|root| fs::write(path(root), "nothing").unwrap()), machine);
        assert_eq!(of(|root| symlink("/etc/passwd", path(root)).unwrap()), machine);
        assert_eq!(of(|root| fs::create_dir(path(root)).unwrap()), machine);
    }
}
