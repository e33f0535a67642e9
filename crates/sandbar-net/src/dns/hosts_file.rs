//! The names a host knows by itself: `/etc/hosts`.

use std::{collections::HashMap, net::IpAddr, path::PathBuf, sync::Arc};

use sandbar_core::DomainName;

use super::changing_file::ChangingFile;

/// The hosts file.
#[derive(Debug)]
pub(super) struct HostsFile(ChangingFile<HashMap<DomainName, Arc<[IpAddr]>>>);

impl HostsFile {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self(ChangingFile::new(path, parse))
    }

    /// The addresses it has for a name.
    pub(super) fn addresses_of(&self, name: &DomainName) -> Option<Arc<[IpAddr]>> {
        self.0.current().get(name).cloned()
    }
}

/// `address name…` with comments. Lines that are something else are passed over, as the C library does.
pub(super) fn parse(text: &str) -> HashMap<DomainName, Arc<[IpAddr]>> {
    let mut names: HashMap<DomainName, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
        for name in words.filter_map(|word| word.parse().ok()) {
            let addresses = names.entry(name).or_default();
            if !addresses.contains(&address.to_canonical()) {
                addresses.push(address.to_canonical());
            }
        }
    }
    names.into_iter().map(|(name, addresses)| (name, addresses.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_c_library_reads_them() {
        let names = parse(
            "# comment\n127.0.0.1\tlocalhost Build.Example # x.example\n2001:db8::1 build.example\nnonsense a.example\n\n10.0.0.1\n10.1 b.example\n10.0.0.2 build.example",
        );
        let of = |name: &str| names.get(&name.parse::<DomainName>().unwrap()).map(|found| found.to_vec());
        let addresses = ["127.0.0.1", "2001:db8::1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(of("build.example").unwrap(), addresses);
        assert_eq!(of("localhost").unwrap(), addresses[..1]);
        assert_eq!((of("x.example"), of("a.example"), of("b.example")), (None, None, None));
    }
}
