//! Adds secrets to the headers of requests.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use sandbar_core::{DomainName, SecretName, SecretValue};

use crate::rules::Rules;

/// Headers with secrets for requests to one host.
#[derive(Clone, Debug, Default)]
pub(super) struct Injection {
    headers: Arc<[(HeaderName, HeaderValue)]>,
    values: Arc<[SecretValue]>,
    names: Vec<SecretName>,
}

impl Injection {
    /// Collects the headers of the policy for this host; fails with the name of the first secret
    /// that does not exist.
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
            let mut line =
                HeaderValue::from_bytes(rule.render(&value).as_bytes()).map_err(|_| unknown())?;
            line.set_sensitive(true);
            headers.push((name, line));
            values.push(value);
            if !names.contains(&rule.secret) {
                names.push(rule.secret.clone());
            }
        }
        Ok(Self {
            headers: headers.into(),
            values: values.into(),
            names,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Returns the names of the secrets.
    pub(super) fn names(&self) -> &[SecretName] {
        &self.names
    }

    /// Sets the headers. Values that the session sent under these names are replaced.
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        for (name, value) in &*self.headers {
            headers.insert(name, value.clone());
        }
    }

    /// Removes these headers from the trailers that the session sent.
    pub(super) fn clear(&self, trailers: &mut HeaderMap) {
        for (name, _) in &*self.headers {
            trailers.remove(name);
        }
    }

    /// Removes response headers that contain a secret. Bodies are not searched: they may be
    /// compressed, encoded or endless. A host that gets a secret is therefore trusted not to send
    /// it back to the session.
    pub(super) fn hide(&self, headers: &mut HeaderMap) {
        let shows = |line: &HeaderValue| {
            self.values.iter().any(|value| {
                let secret = value.expose().as_bytes();
                line.as_bytes()
                    .windows(secret.len())
                    .any(|part| part == secret)
            })
        };
        let telling: Vec<HeaderName> = headers
            .iter()
            .filter(|(_, line)| shows(line))
            .map(|(name, _)| name.clone())
            .collect();
        for name in telling {
            headers.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use sandbar_core::NetworkPolicy;

    use super::*;

    fn prepare(exists: bool) -> Result<Injection, SecretName> {
        let policy: NetworkPolicy = serde_json::from_str(
            r#"{"allow_list": ["api.example"],
                "secrets": [{"host": "api.example", "header": "Authorization", "secret": "key", "format": "Bearer {}"}]}"#,
        )
        .unwrap();
        let secret = |_: &SecretName| exists.then(|| SecretValue::new("hunter2").unwrap());
        Injection::prepare(
            &Rules::new(policy),
            &"api.example".parse().unwrap(),
            443,
            secret,
        )
    }

    #[test]
    fn secret_replaces_header_of_the_session() {
        let mut headers = HeaderMap::new();
        headers.append("authorization", "mine".parse().unwrap());
        headers.append("authorization", "mine too".parse().unwrap());
        let injection = prepare(true).unwrap();
        injection.put(&mut headers);
        assert_eq!(
            headers.get_all("authorization").iter().collect::<Vec<_>>(),
            ["Bearer hunter2"]
        );
        assert_eq!(injection.names(), [SecretName::new("key").unwrap()]);
        assert!(!format!("{headers:?} {injection:?}").contains("hunter2"));
        injection.clear(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn response_header_with_the_secret_is_removed() {
        let mut headers = HeaderMap::new();
        headers.append(
            "location",
            "https://x.example/?key=hunter2&y".parse().unwrap(),
        );
        headers.append("set-cookie", "harmless".parse().unwrap());
        headers.append("etag", "hunter".parse().unwrap());
        prepare(true).unwrap().hide(&mut headers);
        assert!(!headers.contains_key("location"));
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn missing_secret_is_named() {
        assert_eq!(prepare(false).unwrap_err().as_str(), "key");
    }
}
