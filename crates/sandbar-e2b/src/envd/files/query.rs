//! What the address of a request for `/files` says.

use axum::http::{StatusCode, Uri};
use form_urlencoded::parse;

use crate::answer::ControlError;

/// Everything that can be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilesQuery {
    pub(crate) path: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) signature: Option<String>,
    /// Seconds since 1970.
    pub(crate) signature_expiration: Option<i64>,
}

impl FilesQuery {
    pub(crate) fn of(uri: &Uri) -> Result<Self, ControlError> {
        let mut query = Self::default();
        for (name, value) in parse(uri.query().unwrap_or_default().as_bytes()) {
            match &*name {
                "path" => query.path = Some(value.into_owned()),
                "username" => query.username = Some(value.into_owned()),
                // A `+` nobody has encoded comes as a space, which no signature has.
                "signature" => query.signature = Some(value.replace(' ', "+")),
                "signature_expiration" => {
                    let seconds = value.parse().map_err(|_| {
                        let why = format!("invalid format for parameter signature_expiration: '{value}' is no number");
                        ControlError::new(StatusCode::BAD_REQUEST, why)
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
    fn the_address_is_read_and_what_nobody_knows_is_ignored() {
        let query = FilesQuery::of(&"/files?path=a%20b%2Fc&username=root&signature=v1_a+b%2Fc&x=1".parse().unwrap());
        let expected = FilesQuery {
            path: Some("a b/c".into()),
            username: Some("root".into()),
            signature: Some("v1_a+b/c".into()),
            signature_expiration: None,
        };
        assert_eq!(query.unwrap(), expected);
        assert_eq!(FilesQuery::of(&"/files".parse().unwrap()).unwrap(), FilesQuery::default());
        assert!(FilesQuery::of(&"/files?signature_expiration=soon".parse().unwrap()).is_err());
    }
}
