//! Durations in text form, for `#[serde(with = ...)]`: `"30s"`, `"5m"`, `"1h 30m"`.

use std::time::Duration;

use jiff::{SignedDuration, fmt::friendly};
use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// Serialises a duration in its short form.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let printer = friendly::SpanPrinter::new();
    serializer.serialize_str(&printer.unsigned_duration_to_string(duration))
}

/// Deserialises a duration from its short form.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let complain = || {
        D::Error::custom(format!(
            "`{text}` is not a duration; write `30s`, `5m` or `1h 30m`"
        ))
    };
    let parsed: SignedDuration = text.parse().map_err(|_| complain())?;
    Duration::try_from(parsed).map_err(|_| complain())
}

/// The same for an optional duration.
pub mod optional {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    struct Text(Duration);

    impl<'de> Deserialize<'de> for Text {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            super::deserialize(deserializer).map(Self)
        }
    }

    /// Serialises an optional duration.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Deserialises an optional duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Text>::deserialize(deserializer)?.map(|text| text.0))
    }
}
