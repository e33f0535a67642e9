//! Operations of a call.

use buffa_descriptor::generated::descriptor::method_options::IdempotencyLevel;
use serde_json::{Map, Value, json};

use super::{catalog::Call, comments::first_sentence, schema::reference};

/// Description of the message framing of streams.
const ENVELOPES: &str = "\
Messages are in envelopes: one byte of flags (0), four bytes with the length of what follows, the highest first, and the \
message as JSON. The last envelope of an answer has flags 2 and holds `{}`, or `{\"error\": …}` as described by \
`connect.Error`; the status of the answer is 200 either way.";

impl Call<'_> {
    pub(super) fn path(&self) -> String {
        format!("/{}/{}", self.service, self.name())
    }

    pub(super) fn request(&self) -> &str {
        self.method
            .input_type
            .as_deref()
            .unwrap_or_default()
            .trim_start_matches('.')
    }

    pub(super) fn response(&self) -> &str {
        self.method
            .output_type
            .as_deref()
            .unwrap_or_default()
            .trim_start_matches('.')
    }

    fn name(&self) -> &str {
        self.method.name.as_deref().unwrap_or_default()
    }

    fn streams(&self) -> (bool, bool) {
        (
            self.method.client_streaming.unwrap_or_default(),
            self.method.server_streaming.unwrap_or_default(),
        )
    }

    /// Returns the operations of the path.
    pub(super) fn operations(&self) -> Value {
        let is_stream = self.streams() != (false, false);
        let mut operations = Map::new();
        operations.insert(
            "post".to_owned(),
            if is_stream {
                self.stream()
            } else {
                self.post()
            },
        );
        let level = self.method.options.idempotency_level.unwrap_or_default();
        if !is_stream && level == IdempotencyLevel::NO_SIDE_EFFECTS {
            operations.insert("get".to_owned(), self.get());
        }
        operations.into()
    }

    fn post(&self) -> Value {
        json!({
            "operationId": self.name(),
            "summary": first_sentence(&self.comment),
            "description": self.comment,
            "tags": [self.service],
            "parameters": parameters(),
            "requestBody": {
                "required": true,
                "content": {"application/json": {"schema": reference(self.request())}},
            },
            "responses": self.answers(),
        })
    }

    /// Returns the `GET` operation of a call without side effects.
    fn get(&self) -> Value {
        let mut all = vec![
            json!({
                "name": "message",
                "in": "query",
                "required": true,
                "description": "The request, as JSON.",
                "content": {"application/json": {"schema": reference(self.request())}},
            }),
            json!({
                "name": "encoding",
                "in": "query",
                "required": true,
                "description": "What `message` is written in.",
                "schema": {"type": "string", "const": "json"},
            }),
            json!({
                "name": "connect",
                "in": "query",
                "description": "The version of the protocol.",
                "schema": {"type": "string", "const": "v1"},
            }),
        ];
        all.extend(parameters());
        json!({
            "operationId": format!("{}_get", self.name()),
            "summary": first_sentence(&self.comment),
            "description": self.comment,
            "tags": [self.service],
            "parameters": all,
            "responses": self.answers(),
        })
    }

    fn answers(&self) -> Value {
        json!({
            "200": {
                "description": "The call was done.",
                "headers": {"x-api-version": {"$ref": "#/components/headers/ApiVersion"}},
                "content": {"application/json": {"schema": reference(self.response())}},
            },
            "default": {"$ref": "#/components/responses/Error"},
        })
    }

    /// Returns the operation of a streaming call. The messages in the envelopes are described as in
    /// OpenAPI 3.2.
    fn stream(&self) -> Value {
        let (requests, responses) = self.streams();
        let content = |message: &str| json!({"application/connect+json": {"x-itemSchema": reference(message)}});
        let many = |is_many: bool| {
            if is_many {
                "any number of messages"
            } else {
                "one message"
            }
        };
        let shape = format!(
            "Takes {} and answers with {}. {ENVELOPES}",
            many(requests),
            many(responses)
        );
        json!({
            "operationId": self.name(),
            "summary": first_sentence(&self.comment),
            "description": format!("{}\n\n{shape}", self.comment),
            "tags": [self.service],
            "parameters": parameters(),
            "requestBody": {"required": true, "content": content(self.request())},
            "responses": {
                "200": {
                    "description": "The stream. The result of the call is in its last envelope.",
                    "headers": {"x-api-version": {"$ref": "#/components/headers/ApiVersion"}},
                    "content": content(self.response()),
                },
            },
        })
    }
}

fn parameters() -> Vec<Value> {
    ["ApiVersion", "ConnectTimeout"]
        .map(|name| json!({"$ref": format!("#/components/parameters/{name}")}))
        .to_vec()
}
