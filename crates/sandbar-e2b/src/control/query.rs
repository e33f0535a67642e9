//! The part of an address after the question mark.

use axum::{extract::FromRequestParts, http::request::Parts};

use super::{Answer, fields::bad_request};
use crate::answer::ControlError;

/// Names and values, in the order they were sent. Names nobody asks for are ignored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// A value; an empty one is absent.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, value)| own == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// All values of a name, which may be sent several times, or once with commas.
    pub(crate) fn list(&self, name: &str) -> Vec<&str> {
        let values = self.0.iter().filter(|(own, _)| own == name);
        values.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|value| !value.is_empty()).collect()
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn number(&self, name: &str, least: u64, most: u64) -> Answer<Option<u64>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => {
                Err(bad_request(format!("`{name}` is `{}`; send a number from {least} to {most}", text.escape_debug())))
            }
        }
    }
}

impl From<&str> for Query {
    fn from(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ControlError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ControlError> {
        Ok(parts.uri.query().unwrap_or_default().into())
    }
}

/// One layer of percent-encoding taken off.
pub(super) fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_with_commas_or_one_by_one() {
        for text in ["state=running,paused", "state=running&state=paused", "state=running%2Cpaused&x=1"] {
            assert_eq!(Query::from(text).list("state"), ["running", "paused"], "{text}");
        }
        assert!(Query::from("state=&x").list("state").is_empty());
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let query = Query::from("limit=101&start=7&end=");
        assert!(format!("{:?}", query.number("limit", 1, 100).unwrap_err()).contains("`limit`"));
        assert_eq!(query.number("start", 0, u64::MAX).unwrap(), Some(7));
        assert_eq!(query.number("end", 0, u64::MAX).unwrap(), None);
    }
}
