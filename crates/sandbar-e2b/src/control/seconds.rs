//! Lengths of time in requests.

use std::time::Duration;

use super::{
    Answer,
    fields::{Fields, bad_request},
};

/// What fits into the numbers of E2B.
const LONGEST: i64 = i32::MAX as i64;

/// A field of whole seconds, at least `least`.
pub(super) fn take(fields: &mut Fields, name: &str, least: i64) -> Answer<Option<Duration>> {
    let Some(seconds) = fields.take::<i64>(name)? else { return Ok(None) };
    match u64::try_from(seconds) {
        Ok(length) if (least..=LONGEST).contains(&seconds) => Ok(Some(Duration::from_secs(length))),
        _ => Err(bad_request(format!("`{name}` is {seconds}; send seconds from {least} to {LONGEST}"))),
    }
}
