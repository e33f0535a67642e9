//! The query string of a request.

use axum::{extract::FromRequestParts, http::request::Parts};

use super::error::{ApiError, ApiResult, bad_request};

/// Names and values in the order they were sent. Unknown names are ignored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Returns a value; an empty one counts as absent.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(own, value)| own == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// Returns all values of a name, which may be repeated or separated by commas.
    pub(crate) fn list(&self, name: &str) -> Vec<&str> {
        let values = self.0.iter().filter(|(own, _)| own == name);
        values
            .flat_map(|(_, value)| value.split(','))
            .map(str::trim)
            .filter(|value| !value.is_empty())
            .collect()
    }

    /// Returns an integer from `min` to `max`.
    pub(crate) fn number(&self, name: &str, min: u64, max: u64) -> ApiResult<Option<u64>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(bad_request(format!(
                "`{name}` is `{}`; send a number from {min} to {max}",
                text.escape_debug()
            ))),
        }
    }
}

impl From<&str> for Query {
    fn from(text: &str) -> Self {
        Self(
            form_urlencoded::parse(text.as_bytes())
                .into_owned()
                .collect(),
        )
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(parts.uri.query().unwrap_or_default().into())
    }
}

/// Removes one layer of percent-encoding.
pub(crate) fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_repeated_or_separated_by_commas() {
        for text in [
            "state=running,paused",
            "state=running&state=paused",
            "state=running%2Cpaused&x=1",
        ] {
            assert_eq!(
                Query::from(text).list("state"),
                ["running", "paused"],
                "{text}"
            );
        }
        assert!(Query::from("state=&x").list("state").is_empty());
    }

    #[test]
    fn number_out_of_range_is_refused_by_name() {
        let query = Query::from("limit=101&start=7&end=");
        assert!(format!("{:?}", query.number("limit", 1, 100).unwrap_err()).contains("`limit`"));
        assert_eq!(query.number("start", 0, u64::MAX).unwrap(), Some(7));
        assert_eq!(query.number("end", 0, u64::MAX).unwrap(), None);
    }
}
