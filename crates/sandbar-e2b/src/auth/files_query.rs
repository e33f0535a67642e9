//! Query parameters of `/files`.

use axum::http::{StatusCode, Uri};
use form_urlencoded::parse;

use crate::rest::ApiError;

/// Parsed query parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilesQuery {
    pub(crate) path: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) signature: Option<String>,
    /// Unix time in seconds.
    pub(crate) signature_expiration: Option<i64>,
}

impl FilesQuery {
    pub(crate) fn of(uri: &Uri) -> Result<Self, ApiError> {
        let mut query = Self::default();
        for (name, value) in parse(uri.query().unwrap_or_default().as_bytes()) {
            match &*name {
                "path" => query.path = Some(value.into_owned()),
                "username" => query.username = Some(value.into_owned()),
                // A `+` that the client did not encode is decoded as a space, which no signature
                // contains.
                "signature" => query.signature = Some(value.replace(' ', "+")),
                "signature_expiration" => {
                    let seconds = value.parse().map_err(|_| {
                        let why = format!("invalid format for parameter signature_expiration: '{value}' is not a number");
                        ApiError::new(StatusCode::BAD_REQUEST, why)
                    })?;
                    query.signature_expiration = Some(seconds);
                }
                _ => {}
            }
        }
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parameters_are_ignored() {
        let query = FilesQuery::of(
            &"/files?path=a%20b%2Fc&username=root&signature=v1_a+b%2Fc&x=1"
                .parse()
                .unwrap(),
        );
        let expected = FilesQuery {
            path: Some("a b/c".into()),
            username: Some("root".into()),
            signature: Some("v1_a+b/c".into()),
            signature_expiration: None,
        };
        assert_eq!(query.unwrap(), expected);
        assert_eq!(
            FilesQuery::of(&"/files".parse().unwrap()).unwrap(),
            FilesQuery::default()
        );
        assert!(FilesQuery::of(&"/files?signature_expiration=soon".parse().unwrap()).is_err());
    }
}
