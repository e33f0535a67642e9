//! Secrets in the headers of requests.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use sandbar_core::{DomainName, SecretName, SecretValue};

use crate::rules::Rules;

/// What a request to one host gets.
#[derive(Clone, Debug, Default)]
pub(super) struct Injection {
    headers: Arc<[(HeaderName, HeaderValue)]>,
    values: Arc<[SecretValue]>,
    names: Vec<SecretName>,
}

impl Injection {
    /// Everything the policy has for this host, or the first secret that nobody knows.
    pub(super) fn prepare(
        rules: &Rules,
        host: &DomainName,
        port: u16,
        secret: impl Fn(&SecretName) -> Option<SecretValue>,
    ) -> Result<Self, SecretName> {
        let (mut headers, mut values, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for rule in rules.policy().headers_for(host, port) {
            let unknown = || rule.secret.clone();
            let value = secret(&rule.secret).ok_or_else(unknown)?;
            let name = HeaderName::from_bytes(rule.header.as_bytes()).map_err(|_| unknown())?;
            let mut line = HeaderValue::from_bytes(rule.render(&value).as_bytes()).map_err(|_| unknown())?;
            line.set_sensitive(true);
            headers.push((name, line));
            values.push(value);
            if !names.contains(&rule.secret) {
                names.push(rule.secret.clone());
            }
        }
        Ok(Self { headers: headers.into(), values: values.into(), names })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// The secrets in it.
    pub(super) fn names(&self) -> &[SecretName] {
        &self.names
    }

    /// Puts the secrets in. What the session sent under these names goes.
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        for (name, value) in &*self.headers {
            headers.insert(name, value.clone());
        }
    }

    /// Takes what the session sent under these names away, where nothing is put: from trailers.
    pub(super) fn clear(&self, trailers: &mut HeaderMap) {
        for (name, _) in &*self.headers {
            trailers.remove(name);
        }
    }

    /// Takes headers away in which a server sends a secret back. A server that puts it into a body shows it: bodies are
    /// not looked into, they may be compressed, encoded or endless. A host that gets a secret is trusted with it.
    pub(super) fn hide(&self, headers: &mut HeaderMap) {
        let shows = |line: &HeaderValue| {
            self.values.iter().any(|value| {
                let secret = value.expose().as_bytes();
                line.as_bytes().windows(secret.len()).any(|part| part == secret)
            })
        };
        let telling: Vec<HeaderName> =
            headers.iter().filter(|(_, line)| shows(line)).map(|(name, _)| name.clone()).collect();
        for name in telling {
            headers.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use sandbar_core::NetworkPolicy;

    use super::*;

    fn prepare(known: bool) -> Result<Injection, SecretName> {
        let policy: NetworkPolicy = serde_json::from_str(
            r#"{"allow_list": ["api.example"],
                "secrets": [{"host": "api.example", "header": "Authorization", "secret": "key", "format": "Bearer {}"}]}"#,
        )
        .unwrap();
        let secret = |_: &SecretName| known.then(|| SecretValue::new("hunter2").unwrap());
        Injection::prepare(&Rules::new(policy), &"api.example".parse().unwrap(), 443, secret)
    }

    #[test]
    fn the_secret_replaces_whatever_the_session_sent() {
        let mut headers = HeaderMap::new();
        headers.append("authorization", "mine".parse().unwrap());
        headers.append("authorization", "mine too".parse().unwrap());
        let injection = prepare(true).unwrap();
        injection.put(&mut headers);
        assert_eq!(headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Bearer hunter2"]);
        assert_eq!(injection.names(), [SecretName::new("key").unwrap()]);
        assert!(!format!("{headers:?} {injection:?}").contains("hunter2"));
        injection.clear(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn a_secret_that_comes_back_in_a_header_goes_no_further() {
        let mut headers = HeaderMap::new();
        headers.append("location", "https://x.example/?key=hunter2&y".parse().unwrap());
        headers.append("set-cookie", "harmless".parse().unwrap());
        headers.append("etag", "hunter".parse().unwrap());
        prepare(true).unwrap().hide(&mut headers);
        assert!(!headers.contains_key("location"));
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn a_secret_nobody_knows_is_named() {
        assert_eq!(prepare(false).unwrap_err().as_str(), "key");
    }
}
