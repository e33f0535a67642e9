//! Durations in requests.

use std::time::Duration;

use super::{
    error::{ApiResult, bad_request},
    fields::Fields,
};

/// Largest value of the 32-bit integers in the E2B API.
const MAX_SECONDS: i64 = i32::MAX as i64;

/// Removes and returns a field of whole seconds, at min `min`.
pub(crate) fn take(fields: &mut Fields, name: &str, min: i64) -> ApiResult<Option<Duration>> {
    let Some(seconds) = fields.take::<i64>(name)? else {
        return Ok(None);
    };
    match u64::try_from(seconds) {
        Ok(length) if (min..=MAX_SECONDS).contains(&seconds) => {
            Ok(Some(Duration::from_secs(length)))
        }
        _ => Err(bad_request(format!(
            "`{name}` is {seconds}; send seconds from {min} to {MAX_SECONDS}"
        ))),
    }
}
