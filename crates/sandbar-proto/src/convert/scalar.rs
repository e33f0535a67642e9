//! Times, durations and enum values.

use std::time::Duration;

use buffa::{EnumValue, Enumeration, Inline, MessageField};
use buffa_types::google::protobuf;
use jiff::Timestamp;
use sandbar_core::{Error, Result};

pub(super) type WireTimestamp = MessageField<protobuf::Timestamp, Inline<protobuf::Timestamp>>;
pub(super) type WireDuration = MessageField<protobuf::Duration, Inline<protobuf::Duration>>;

/// Longest duration accepted, to avoid overflow in time arithmetic.
const MAX_DURATION: Duration = Duration::from_hours(100 * 366 * 24);

pub(super) fn pack_time(time: Timestamp) -> WireTimestamp {
    MessageField::some(time.into())
}

/// Parses a required timestamp.
pub(super) fn unpack_time(field: &'static str, time: WireTimestamp) -> Result<Timestamp> {
    unpack_optional_time(field, time)?
        .ok_or_else(|| Error::invalid(field, format!("`{field}` is missing")))
}

pub(super) fn unpack_optional_time(
    field: &'static str,
    time: WireTimestamp,
) -> Result<Option<Timestamp>> {
    let Some(time) = time.into_option() else {
        return Ok(None);
    };
    Timestamp::new(time.seconds, time.nanos)
        .map(Some)
        .map_err(|source| {
            Error::invalid(field, format!("`{field}` is not a time")).with_source(source)
        })
}

pub(super) fn pack_duration(duration: Duration) -> WireDuration {
    MessageField::some(duration.into())
}

pub(super) fn unpack_duration(
    field: &'static str,
    duration: WireDuration,
) -> Result<Option<Duration>> {
    let Some(duration) = duration.into_option() else {
        return Ok(None);
    };
    let refuse = || {
        Error::invalid(field, format!("`{field}` is not a usable duration")).with_hint(
            "use seconds that are not negative and at most a hundred years, for example `30s`",
        )
    };
    let duration = Duration::try_from(duration).map_err(|_| refuse())?;
    if duration > MAX_DURATION {
        Err(refuse())
    } else {
        Ok(Some(duration))
    }
}

/// Parses an optional port number. Does not reject 0.
pub(super) fn unpack_port(field: &'static str, port: Option<u32>) -> Result<Option<u16>> {
    port.map(u16::try_from).transpose().map_err(|_| {
        Error::invalid(field, format!("`{field}` is above 65535"))
            .with_hint("use a number between 1 and 65535")
    })
}

/// Returns the value of an enum field; rejects unknown numbers.
pub(super) fn known<E: Enumeration>(field: &'static str, value: EnumValue<E>) -> Result<E> {
    value.as_known().ok_or_else(|| {
        Error::invalid(
            field,
            format!("`{field}` has the unknown value {}", value.to_i32()),
        )
        .with_hint("the peer is newer than this program; update this program")
    })
}

/// Returns the error for a missing required field.
pub(super) fn missing(field: &'static str) -> Error {
    Error::invalid(field, format!("`{field}` is missing"))
}
