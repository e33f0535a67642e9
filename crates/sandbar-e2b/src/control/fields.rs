//! The fields of a request, read one by one, so that a refusal names the one at fault.

use axum::{
    body::to_bytes,
    extract::{FromRequest, Request},
    http::StatusCode,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Answer;
use crate::answer::ControlError;

/// More than any request of an SDK: steps of a template may carry whole scripts.
const LARGEST: usize = 16 * 1024 * 1024;

/// A JSON object. Fields nobody asks for are ignored, as SDKs newer than this host expect it; `null` is absent, and so is
/// everything in an empty body.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// Where the object is in the request: empty, or `network.`.
    within: String,
    values: Map<String, Value>,
}

impl Fields {
    /// A field; `None` when it is absent.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Answer<Option<T>> {
        match self.values.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| bad_request(format!("`{}{name}` is not what it has to be: {error}", self.within))),
        }
    }

    /// A field that has to be there.
    pub(crate) fn require<T: DeserializeOwned>(&mut self, name: &str) -> Answer<T> {
        let within = self.within.clone();
        self.take(name)?.ok_or_else(|| bad_request(format!("`{within}{name}` is missing, and this call needs it")))
    }

    /// A field that is an object itself.
    pub(crate) fn object(&mut self, name: &str) -> Answer<Option<Self>> {
        let within = format!("{}{name}.", self.within);
        Ok(self.take(name)?.map(|values| Self { within, values }))
    }

    /// A field that is a list of objects; an empty one when it is absent.
    pub(crate) fn objects(&mut self, name: &str) -> Answer<Vec<Self>> {
        let entries: Vec<Value> = self.take(name)?.unwrap_or_default();
        let read = entries.into_iter().enumerate().map(|(number, entry)| {
            let within = format!("{}{name}[{number}]", self.within);
            let values = serde_json::from_value(entry);
            let values =
                values.map_err(|error| bad_request(format!("`{within}` is not what it has to be: {error}")))?;
            Ok(Self { within: format!("{within}."), values })
        });
        read.collect()
    }

    /// A field whose content does not matter because it cannot be honoured; `false` when it is absent or empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self.values.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(Value::Array(entries)) => !entries.is_empty(),
            Some(_) => true,
        }
    }

    /// What the request says, for comparing it with another one.
    pub(crate) fn fingerprint(&self) -> String {
        blake3::hash(Value::Object(self.values.clone()).to_string().as_bytes()).to_hex().to_string()
    }
}

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = ControlError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ControlError> {
        let body = to_bytes(request.into_body(), LARGEST).await.map_err(|error| {
            let why = format!("the body could not be read: {error} (send at most 16 MiB)");
            ControlError::new(StatusCode::PAYLOAD_TOO_LARGE, why)
        })?;
        read(&body)
    }
}

fn read(body: &[u8]) -> Answer<Fields> {
    if body.trim_ascii().is_empty() {
        return Ok(Fields::default());
    }
    let values =
        serde_json::from_slice(body).map_err(|error| bad_request(format!("the body is no JSON object: {error}")))?;
    Ok(Fields { within: String::new(), values })
}

/// The request is wrong, and this is how.
pub(super) fn bad_request(why: impl Into<String>) -> ControlError {
    ControlError::new(StatusCode::BAD_REQUEST, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_the_wrong_type_is_named_wherever_it_is() {
        let text = br#"{"timeout":"soon","network":{"allowOut":7},"memory":null,"steps":[{},{"args":7}],"odd":[{},1]}"#;
        let mut fields = read(text).unwrap();
        let complaint = |error: ControlError| format!("{error:?}");
        assert!(complaint(fields.take::<u64>("timeout").unwrap_err()).contains("`timeout`"));
        let mut network = fields.object("network").unwrap().unwrap();
        assert!(complaint(network.take::<Vec<String>>("allowOut").unwrap_err()).contains("`network.allowOut`"));
        assert_eq!(fields.take::<bool>("memory").unwrap(), None);
        let mut steps = fields.objects("steps").unwrap();
        assert!(complaint(steps[1].take::<Vec<String>>("args").unwrap_err()).contains("`steps[1].args`"));
        assert!(complaint(fields.objects("odd").unwrap_err()).contains("`odd[1]`"));
        assert!(fields.objects("none").unwrap().is_empty());
        assert!(complaint(fields.require::<u64>("count").unwrap_err()).contains("`count` is missing"));
    }

    #[test]
    fn an_empty_body_is_an_empty_object_and_anything_else_but_an_object_is_refused() {
        assert!(read(b" \n").is_ok() && read(b"{}").is_ok());
        for bad in [&b"[]"[..], b"null", b"{", b"1", b"\"x\""] {
            assert!(read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn what_is_empty_asks_for_nothing() {
        let fields = read(br#"{"a":[],"b":{},"c":null,"d":[1],"e":{"x":1},"f":false}"#).unwrap();
        let asked: Vec<bool> = ["a", "b", "c", "d", "e", "f", "g"].iter().map(|name| fields.has(name)).collect();
        assert_eq!(asked, [false, false, false, true, true, true, false]);
    }
}
