//! Tests of the document against the descriptors.

use buffa::Message as _;
use buffa_descriptor::generated::descriptor::FileDescriptorSet;
use serde_json::Value;

use super::*;
use crate::FILE_DESCRIPTOR_SET;

fn document() -> Value {
    serde_json::from_slice(openapi_json().unwrap()).unwrap()
}

fn call<'a>(document: &'a Value, name: &str) -> &'a Value {
    &document["paths"][format!("/sandbar.v1.SandboxService/{name}")]
}

fn schema<'a>(document: &'a Value, name: &str) -> &'a Value {
    &document["components"]["schemas"][format!("sandbar.v1.{name}")]
}

#[test]
fn every_call_is_described_with_comments() {
    let document = document();
    let files = FileDescriptorSet::decode_from_slice(FILE_DESCRIPTOR_SET).unwrap();
    let methods: Vec<_> = files
        .file
        .iter()
        .flat_map(|file| &file.service)
        .flat_map(|service| &service.method)
        .collect();
    assert!(methods.len() > 30);
    assert_eq!(document["paths"].as_object().unwrap().len(), methods.len());
    for method in methods {
        let operation = &call(&document, method.name.as_deref().unwrap())["post"];
        assert!(
            operation["summary"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{operation}"
        );
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name} is not explained");
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            assert!(
                schema["description"].is_string() || schema["$ref"].is_string(),
                "{name}.{field}: {schema}"
            );
        }
    }
    assert!(
        document["info"]["description"]
            .as_str()
            .unwrap()
            .starts_with("Wire API of a Sandbar host.")
    );
}

#[test]
fn schemas_follow_the_json_mapping() {
    let document = document();
    let session = &schema(&document, "Session")["properties"];
    assert_eq!(
        session["spaceUsed"]["type"], "string",
        "numbers of 64 bits are text"
    );
    assert_eq!(session["created"]["format"], "date-time");
    assert_eq!(
        session["idleTimeout"]["pattern"],
        r"^-?[0-9]+(\.[0-9]{1,9})?s$"
    );
    assert_eq!(session["labels"]["additionalProperties"]["type"], "string");
    assert_eq!(
        session["state"]["$ref"],
        "#/components/schemas/sandbar.v1.SessionState"
    );
    assert_eq!(
        schema(&document, "SessionState")["enum"][2],
        "SESSION_STATE_ACTIVE"
    );
    assert_eq!(
        schema(&document, "ProcessLogsResponse")["properties"]["data"]["contentEncoding"],
        "base64"
    );
    assert_eq!(
        schema(&document, "ListSessionsResponse")["properties"]["sessions"]["type"],
        "array"
    );
    let choices = schema(&document, "Readiness")["allOf"][0]["oneOf"]
        .as_array()
        .unwrap();
    assert_eq!(choices.len(), 4, "one of three, or none");
    assert!(
        schema(&document, "Resources")["allOf"].is_null(),
        "an optional field is no choice"
    );
}

#[test]
fn read_only_calls_have_get_and_streams_their_framing() {
    let document = document();
    assert!(call(&document, "GetSession")["get"].is_object());
    assert!(call(&document, "CreateSession")["get"].is_null());
    let exec = &call(&document, "Exec")["post"];
    assert!(exec["description"].as_str().unwrap().contains("envelopes"));
    let answer = &exec["responses"]["200"]["content"]["application/connect+json"];
    assert_eq!(
        answer["x-itemSchema"]["$ref"],
        "#/components/schemas/sandbar.v1.ExecResponse"
    );
}

#[test]
fn every_reference_resolves() {
    fn check(document: &Value, part: &Value) {
        match part {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    let place = reference.strip_prefix('#').unwrap();
                    assert!(
                        document.pointer(place).is_some(),
                        "{reference} leads nowhere"
                    );
                }
                object.values().for_each(|part| check(document, part));
            }
            Value::Array(parts) => parts.iter().for_each(|part| check(document, part)),
            _ => {}
        }
    }
    let document = document();
    check(&document, &document);
}
