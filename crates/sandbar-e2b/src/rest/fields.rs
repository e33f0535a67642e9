//! The fields of a JSON request body, read one by one so that an error names the field.

use axum::{
    body::to_bytes,
    extract::{FromRequest, Request},
    http::StatusCode,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::{ApiError, ApiResult, bad_request};

/// Larger than any SDK request; steps of a template may contain whole scripts.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// A JSON object. Unknown fields are ignored, which SDKs newer than this host rely on. A field that
/// is `null` counts as absent; an empty body is an empty object.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// Path of this object in the request, for errors: empty, or `network.`.
    within: String,
    values: Map<String, Value>,
}

impl Fields {
    /// Removes and returns a field; `None` if it is absent.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> ApiResult<Option<T>> {
        match self.values.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value).map(Some).map_err(|error| {
                bad_request(format!(
                    "`{}{name}` has the wrong type or value: {error}",
                    self.within
                ))
            }),
        }
    }

    /// As [`take`](Self::take), for a required field.
    pub(crate) fn require<T: DeserializeOwned>(&mut self, name: &str) -> ApiResult<T> {
        let within = self.within.clone();
        self.take(name)?.ok_or_else(|| {
            bad_request(format!(
                "`{within}{name}` is missing; this call requires it"
            ))
        })
    }

    /// As [`take`](Self::take), for a nested object.
    pub(crate) fn object(&mut self, name: &str) -> ApiResult<Option<Self>> {
        let within = format!("{}{name}.", self.within);
        Ok(self.take(name)?.map(|values| Self { within, values }))
    }

    /// As [`take`](Self::take), for a list of objects; empty if the field is absent.
    pub(crate) fn objects(&mut self, name: &str) -> ApiResult<Vec<Self>> {
        let entries: Vec<Value> = self.take(name)?.unwrap_or_default();
        let read = entries.into_iter().enumerate().map(|(number, entry)| {
            let within = format!("{}{name}[{number}]", self.within);
            let values = serde_json::from_value(entry);
            let values = values.map_err(|error| {
                bad_request(format!("`{within}` has the wrong type or value: {error}"))
            })?;
            Ok(Self {
                within: format!("{within}."),
                values,
            })
        });
        read.collect()
    }

    /// Returns whether a field is present and not empty. For fields that are refused whatever they
    /// contain.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self.values.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(Value::Array(entries)) => !entries.is_empty(),
            Some(_) => true,
        }
    }

    /// Returns a hash of the object, to compare a retried request with the first one.
    pub(crate) fn fingerprint(&self) -> String {
        blake3::hash(Value::Object(self.values.clone()).to_string().as_bytes())
            .to_hex()
            .to_string()
    }
}

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let body = to_bytes(request.into_body(), MAX_BODY_BYTES)
            .await
            .map_err(|error| {
                let why = format!("request body could not be read: {error} (send at most 16 MiB)");
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, why)
            })?;
        read(&body)
    }
}

fn read(body: &[u8]) -> ApiResult<Fields> {
    if body.trim_ascii().is_empty() {
        return Ok(Fields::default());
    }
    let values = serde_json::from_slice(body)
        .map_err(|error| bad_request(format!("request body is not a JSON object: {error}")))?;
    Ok(Fields {
        within: String::new(),
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_of_the_wrong_type_is_named_with_its_path() {
        let text = br#"{"timeout":"soon","network":{"allowOut":7},"memory":null,"steps":[{},{"args":7}],"odd":[{},1]}"#;
        let mut fields = read(text).unwrap();
        let complaint = |error: ApiError| format!("{error:?}");
        assert!(complaint(fields.take::<u64>("timeout").unwrap_err()).contains("`timeout`"));
        let mut network = fields.object("network").unwrap().unwrap();
        assert!(
            complaint(network.take::<Vec<String>>("allowOut").unwrap_err())
                .contains("`network.allowOut`")
        );
        assert_eq!(fields.take::<bool>("memory").unwrap(), None);
        let mut steps = fields.objects("steps").unwrap();
        assert!(
            complaint(steps[1].take::<Vec<String>>("args").unwrap_err())
                .contains("`steps[1].args`")
        );
        assert!(complaint(fields.objects("odd").unwrap_err()).contains("`odd[1]`"));
        assert!(fields.objects("none").unwrap().is_empty());
        assert!(
            complaint(fields.require::<u64>("count").unwrap_err()).contains("`count` is missing")
        );
    }

    #[test]
    fn body_is_an_object_or_empty() {
        assert!(read(b" \n").is_ok() && read(b"{}").is_ok());
        for bad in [&b"[]"[..], b"null", b"{", b"1", b"\"x\""] {
            assert!(read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn empty_field_counts_as_absent() {
        let fields = read(br#"{"a":[],"b":{},"c":null,"d":[1],"e":{"x":1},"f":false}"#).unwrap();
        let asked: Vec<bool> = ["a", "b", "c", "d", "e", "f", "g"]
            .iter()
            .map(|name| fields.has(name))
            .collect();
        assert_eq!(asked, [false, false, false, true, true, true, false]);
    }
}
