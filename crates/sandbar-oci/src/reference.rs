//! Image references: `debian`, `python:3.12`, `registry.example:5000/team/tool@sha256:…`.

use std::{fmt, net::IpAddr, str::FromStr};

use sandbar_core::{Error, Result};

use crate::blobs::blob_path;

const HINT: &str = "write `name`, `name:tag`, `host/name:tag` or `host:port/name@sha256:…`";
/// Registry of names without a host.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Host of its API.
const DEFAULT_REGISTRY_HOST: &str = "registry-1.docker.io";
const DEFAULT_TAG: &str = "latest";
const MAX_NAME_BYTES: usize = 255;
const MAX_TAG_BYTES: usize = 128;

/// Reference to an image, displayed in full: `docker.io/library/debian:latest`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageReference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageReference {
    /// Returns the registry: `docker.io`, `localhost:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the repository: `library/debian`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the digest if there is one, else the tag.
    pub fn version(&self) -> &str {
        self.digest
            .as_deref()
            .or(self.tag.as_deref())
            .unwrap_or(DEFAULT_TAG)
    }

    /// Returns the expected digest of the manifest, if given.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Returns host and optional port of the registry's API.
    pub(crate) fn host(&self) -> &str {
        if self.registry == DEFAULT_REGISTRY {
            DEFAULT_REGISTRY_HOST
        } else {
            &self.registry
        }
    }
}

impl FromStr for ImageReference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Error::invalid(
                "image",
                format!(
                    "`{}` is not a valid image reference: {why}",
                    text.escape_debug()
                ),
            )
            .with_hint(HINT)
        };
        let rest = text.strip_prefix("docker://").unwrap_or(text);
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) if blob_path(digest).is_ok() => {
                (rest, Some(digest.to_ascii_lowercase()))
            }
            Some(_) => {
                return Err(refuse(
                    "what follows `@` is not `sha256:` and 64 hexadecimal digits",
                ));
            }
            None => (rest, None),
        };
        // A colon after the last slash begins a tag; before it, a port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(refuse("its tag has characters a tag cannot have"));
        }
        let (registry, path) = match name.split_once('/') {
            Some((first, path)) if is_registry(first) => (registry_name(first), path.to_owned()),
            _ => (DEFAULT_REGISTRY.to_owned(), name.to_owned()),
        };
        if !is_host(&registry) {
            return Err(refuse("the registry is no host name"));
        }
        let registry = match registry.as_str() {
            "index.docker.io" | DEFAULT_REGISTRY_HOST => DEFAULT_REGISTRY.to_owned(),
            _ => registry,
        };
        let of_everybody = registry == DEFAULT_REGISTRY && !path.contains('/');
        let repository = if of_everybody {
            format!("library/{path}")
        } else {
            path
        };
        if repository.len() > MAX_NAME_BYTES || !repository.split('/').all(is_name_part) {
            return Err(refuse(
                "names are lower-case letters and digits, with `.`, `_`, `-` and `/` between them",
            ));
        }
        let tag = tag
            .or(digest.is_none().then_some(DEFAULT_TAG))
            .map(ToOwned::to_owned);
        Ok(Self {
            registry,
            repository,
            tag,
            digest,
        })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Returns whether the first component is a registry, not a user of the default one.
fn is_registry(first: &str) -> bool {
    first == "localhost"
        || first.contains(['.', ':'])
        || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Returns the name of a registry in lower case, unless it is known as a registry by its upper-case
/// letters alone: written out in lower case, `Host/name` would be `docker.io/host/name`.
fn registry_name(first: &str) -> String {
    let lower_case = first.to_ascii_lowercase();
    if is_registry(&lower_case) {
        lower_case
    } else {
        first.to_owned()
    }
}

/// Checks a host name or address with an optional port.
fn is_host(text: &str) -> bool {
    let (host, port) = split_port(text);
    let port_fits = port.is_none_or(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let named = || host.len() <= 253 && host.split('.').all(label);
    let address = || {
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .is_some_and(|host| matches!(host.parse(), Ok(IpAddr::V6(_))))
    };
    port_fits && (named() || address())
}

/// Splits `host:port`, where the host may be an IPv6 address in brackets.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    }
}

/// Returns whether a registry is on the loopback interface, where plain HTTP is permitted.
pub(crate) fn is_loopback(registry: &str) -> bool {
    let (host, _) = split_port(registry);
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG_BYTES
        && tag.bytes().next().is_some_and(word)
        && tag
            .bytes()
            .all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

/// Checks a name component: letters and digits, with single separators `.`, `_`, `__` or any number
/// of `-` between them.
fn is_name_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators =
        part.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    part.bytes().next().is_some_and(plain)
        && part.bytes().last().is_some_and(plain)
        && separators.into_iter().all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        text.parse::<ImageReference>().unwrap().to_string()
    }

    #[test]
    fn names_without_a_host_are_of_docker_hub() {
        for (short, complete) in [
            ("debian", "docker.io/library/debian:latest"),
            ("debian:12", "docker.io/library/debian:12"),
            ("team/tool", "docker.io/team/tool:latest"),
            ("docker.io/debian", "docker.io/library/debian:latest"),
            (
                "index.docker.io/library/debian:12",
                "docker.io/library/debian:12",
            ),
            (
                "docker://registry-1.docker.io/team/tool:a",
                "docker.io/team/tool:a",
            ),
        ] {
            assert_eq!(written(short), complete);
            assert_eq!(
                short.parse::<ImageReference>().unwrap().host(),
                "registry-1.docker.io"
            );
        }
    }

    #[test]
    fn hosts_ports_tags_and_digests_are_distinguished() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let reference: ImageReference = format!("Host.example:5000/a/b_c:1.2@{digest}")
            .parse()
            .unwrap();
        assert_eq!(
            (reference.registry(), reference.repository()),
            ("host.example:5000", "a/b_c")
        );
        assert_eq!(
            (reference.version(), reference.digest()),
            (digest.as_str(), Some(digest.as_str()))
        );
        assert_eq!(written("localhost/x"), "localhost/x:latest");
        assert_eq!(written("LOCALHOST/x"), "localhost/x:latest");
        assert_eq!(written("Host/x"), "Host/x:latest");
        assert_eq!(written("localhost:5000/x:y"), "localhost:5000/x:y");
        assert_eq!(written("[::1]:5000/x"), "[::1]:5000/x:latest");
        assert_eq!(
            written(&format!("debian@{digest}")),
            format!("docker.io/library/debian@{digest}")
        );
    }

    #[test]
    fn what_is_no_reference_is_refused_with_the_field() {
        let long = "a".repeat(300);
        for bad in [
            "",
            ":",
            "@",
            "debian:",
            ":12",
            "Debian",
            "a//b",
            "/a",
            "a/",
            "a:b:c",
            "../etc",
            "a/../b",
            "a b",
            "a\nb",
            "-a",
            "a-",
            "a..b",
            "a._b",
            "debian@sha256:12",
            "debian@md5:aa",
            "host:0/a",
            "host:99999/a",
            "ho_st.example/a",
            "[::g]:1/a",
            "https://docker.io/debian",
            "host.example/a?b",
            "user@host.example/a",
            "debian:ä",
            &long,
        ] {
            assert_eq!(
                bad.parse::<ImageReference>().unwrap_err().field(),
                Some("image"),
                "{bad}"
            );
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for here in [
            "localhost",
            "localhost:5000",
            "127.0.0.1:5000",
            "127.9.9.9",
            "[::1]:5000",
        ] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in [
            "docker.io",
            "localhost.example",
            "127.0.0.1.example",
            "10.0.0.1:5000",
            "[::2]",
            "128.0.0.1",
        ] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_reference_written_out_is_read_as_itself(text in "([a-z0-9.]{1,8}(:[0-9]{1,4})?/)?[a-z0-9._-]{1,8}(/[a-z0-9-]{1,5})?(:[A-Za-z0-9._-]{1,5})?") {
            crate::fuzzing::image_reference(text.as_bytes());
        }
    }
}
