//! Validated names. A `SessionId` that exists is safe as a path component, a dataset name and a
//! label value.

use crate::{Error, Result};

/// Checks a name of at most `max_bytes`.
pub(crate) fn check(field: &'static str, what: &str, value: &str, max_bytes: usize) -> Result<()> {
    let complain = |why: String| {
        Err(Error::invalid(field, format!("{what} `{}` {why}", value.escape_debug()))
            .with_hint("start with a letter or digit, then letters, digits, `.`, `_` or `-`; for example `build-42`"))
    };
    if value.is_empty() {
        return complain("is empty".into());
    }
    if value.len() > max_bytes {
        return complain(format!(
            "is {} bytes long, at most {max_bytes} are allowed",
            value.len()
        ));
    }
    if let Some(bad) = value
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
    {
        return complain(format!("contains `{}`", bad.escape_debug()));
    }
    if !value.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return complain("does not start with a letter or digit".into());
    }
    if value.contains("..") {
        return complain("contains `..`".into());
    }
    Ok(())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $field:literal, $what:literal, $max_bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the name if `value` is valid.
            pub fn new(value: impl Into<String>) -> $crate::Result<Self> {
                let value = value.into();
                $crate::id::check($field, $what, &value, $max_bytes)?;
                Ok(Self(value))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Error;
            fn from_str(value: &str) -> $crate::Result<Self> {
                Self::new(value)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::Error;
            fn try_from(value: String) -> $crate::Result<Self> {
                Self::new(value)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<std::path::Path> for $name {
            fn as_ref(&self) -> &std::path::Path {
                self.0.as_ref()
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

pub(crate) use name_type;

name_type!(
    /// Name of a session, and of its volume: `^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$` without `..`.
    SessionId, "session_id", "session id", 128
);
name_type!(
    /// Name of a snapshot inside one session.
    SnapshotName, "snapshot", "snapshot name", 255
);
name_type!(
    /// Name of a base.
    BaseName, "base_snapshot", "base name", 128
);

name_type!(
    /// Name of a process inside one session.
    ProcessId, "process_id", "process id", 128
);

impl SessionId {
    /// Returns a random id of 80 bits, so that ids of different hosts do not collide.
    pub fn random() -> Self {
        Self(format!("s{}", random_tail()))
    }

    /// Returns the host name inside the session: the id, truncated to the 64 bytes of the kernel.
    pub fn host_name(&self) -> &str {
        self.as_str().get(..64).unwrap_or(self.as_str())
    }
}

impl ProcessId {
    /// Returns a random id.
    pub fn random() -> Self {
        Self(format!("p-{}", random_tail()))
    }
}

/// Returns 16 random characters of 5 bits each.
fn random_tail() -> String {
    // Crockford's alphabet without vowels that spell words and without letters that look alike.
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bytes = [0u8; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // `getrandom` cannot fail after boot.
        std::process::abort();
    }
    bytes
        .iter()
        .map(|byte| ALPHABET[usize::from(byte & 31)] as char)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn name_with_unsafe_path_characters_is_refused() {
        for bad in [
            "", ".", "..", "a..b", "/etc", "a/b", "-rf", "a b", "a\n", "é", ".hidden", "a\0b",
        ] {
            let error = SessionId::new(bad).unwrap_err();
            assert_eq!(error.field(), Some("session_id"), "{bad:?}");
            assert!(error.hint().is_some());
        }
        assert!(SessionId::new("a".repeat(129)).is_err());
        assert!(SessionId::new("a".repeat(128)).is_ok());
        assert!(SnapshotName::new("a".repeat(255)).is_ok());
    }

    #[test]
    fn random_ids_are_valid_and_differ() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| SessionId::random()).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            SessionId::new(id.as_str()).unwrap();
        }
        ProcessId::new(ProcessId::random().as_str()).unwrap();
    }

    proptest! {
        #[test]
        fn valid_id_is_one_path_component(value in "\\PC{0,140}") {
            if let Ok(id) = SessionId::new(value.clone()) {
                let path: &std::path::Path = id.as_ref();
                prop_assert_eq!(path.components().count(), 1);
                prop_assert!(matches!(path.components().next(), Some(std::path::Component::Normal(_))));
            }
        }
    }
}
