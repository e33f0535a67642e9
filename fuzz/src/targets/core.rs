//! Types of `sandbar-core`: a parsed value must parse again from its own text.

use std::{fmt::Debug, fmt::Display, str::FromStr};

use sandbar_core::{
    Actor, AddressRange, BaseName, ByteCount, Destination, DomainName, DomainPattern, Error,
    HeaderRule, NetworkPolicy, ProcessId, Resources, RuntimeKind, SecretName, SecretValue,
    SessionId, SessionState, SnapshotKind, SnapshotName, StorageKind, ToolCallId,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Parses names and ids.
pub(super) fn ids(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    survives::<SessionId>(text);
    survives::<SnapshotName>(text);
    survives::<BaseName>(text);
    survives::<ProcessId>(text);
    survives::<SecretName>(text);
    let _ = ToolCallId::new(text);
    let _ = Actor::new(text);
    let _ = SecretValue::new(text);
}

/// Parses sizes and durations.
pub(super) fn quantities(bytes: &[u8]) {
    #[derive(Debug, Deserialize, Serialize)]
    struct Length(#[serde(with = "sandbar_core::duration_text")] std::time::Duration);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(size) = text.parse::<ByteCount>() {
        assert!(!size.to_string().is_empty());
    }
    let Ok(quoted) = serde_json::to_string(text) else {
        return;
    };
    same_in_json::<ByteCount>(quoted.as_bytes());
    same_in_json::<Length>(quoted.as_bytes());
}

/// Parses network destinations.
pub(super) fn destinations(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    survives::<Destination>(text);
    survives::<DomainName>(text);
    survives::<DomainPattern>(text);
    survives::<AddressRange>(text);
}

/// Parses the short form of a network policy.
pub(super) fn policies(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(policy) = text.parse::<NetworkPolicy>() {
        let _ = policy.validate();
        assert_eq!(
            policy.to_string().parse::<NetworkPolicy>().ok(),
            Some(policy)
        );
    }
}

/// Parses types that are stored and sent as JSON.
pub(super) fn documents(bytes: &[u8]) {
    same_in_json::<NetworkPolicy>(bytes);
    same_in_json::<HeaderRule>(bytes);
    same_in_json::<Resources>(bytes);
    if let Ok(policy) = serde_json::from_slice::<NetworkPolicy>(bytes) {
        let _ = (policy.validate(), policy.to_string());
    }
    if let Ok(rule) = serde_json::from_slice::<HeaderRule>(bytes)
        && rule.validate().is_ok()
        && let Ok(secret) = SecretValue::new("secret")
    {
        assert!(rule.render(&secret).contains("secret"), "{rule:?}");
    }
    if let Ok(resources) = serde_json::from_slice::<Resources>(bytes) {
        let _ = resources.validate();
    }
}

/// Parses enumerations.
pub(super) fn choices(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = (text.parse::<StorageKind>(), text.parse::<RuntimeKind>());
    let _ = (text.parse::<SessionState>(), text.parse::<SnapshotKind>());
    let _ = (
        text.parse::<sandbar_host::StorageChoice>(),
        text.parse::<sandbar_host::RuntimeChoice>(),
    );
    survives::<sandbar_host::DnsServer>(text);
}

/// Panics unless the text of a parsed value parses to the same value.
fn survives<T: FromStr<Err = Error> + Display + Debug + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let shown = value.to_string();
        assert_eq!(
            shown.parse::<T>().ok().as_ref(),
            Some(&value),
            "{text:?} is shown as {shown:?}"
        );
    }
}

/// Like [`survives`], for JSON. Compares debug output, because NaN is not equal to itself.
fn same_in_json<T: DeserializeOwned + Serialize + Debug>(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<T>(bytes) {
        let text = serde_json::to_vec(&value);
        let again = text
            .as_ref()
            .ok()
            .and_then(|text| serde_json::from_slice::<T>(text).ok());
        assert_eq!(
            again.map(|again| format!("{again:?}")),
            Some(format!("{value:?}")),
            "written as {text:?}"
        );
    }
}
