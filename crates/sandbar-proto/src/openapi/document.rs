//! OpenAPI document.

use std::sync::LazyLock;

use buffa::Message as _;
use buffa_descriptor::generated::descriptor::FileDescriptorSet;
use sandbar_core::{Error, Result};
use serde_json::{Map, Value, json};

use super::{
    catalog::Catalog,
    error_answer::{self, DETAIL, ERROR},
    schema::schemas,
};
use crate::{API_VERSION, API_VERSION_HEADER, FILE_DESCRIPTOR_SET};

/// Returns the document as JSON text, generated on first use.
pub fn openapi_json() -> Result<&'static [u8]> {
    static DOCUMENT: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| {
        let files = FileDescriptorSet::decode_from_slice(FILE_DESCRIPTOR_SET).ok()?;
        serde_json::to_vec_pretty(&document(&files)).ok()
    });
    DOCUMENT
        .as_deref()
        .ok_or_else(|| Error::internal("compiled API descriptor is invalid"))
}

/// Describes every call of the service.
fn document(files: &FileDescriptorSet) -> Value {
    let catalog = Catalog::of(files);
    let paths: Map<String, Value> = catalog
        .calls
        .iter()
        .map(|call| (call.path(), call.operations()))
        .collect();
    let messages = catalog
        .calls
        .iter()
        .flat_map(|call| [call.request(), call.response()]);
    let mut schemas = schemas(&catalog, messages.chain([DETAIL]).map(str::to_owned));
    schemas.insert(ERROR.to_owned(), error_answer::schema());
    let tag = catalog
        .calls
        .first()
        .map(|call| call.service.clone())
        .unwrap_or_default();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sandbar",
            "summary": "The API of a Sandbar host, in its JSON form",
            "description": catalog.introduction,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        // Relative: the host that serves the document.
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": tag, "description": catalog.service}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {"Error": error_answer::response()},
            "parameters": parameters(),
            "headers": {"ApiVersion": {"description": "The API this host speaks.", "schema": {"type": "string"}}},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token of the host, as `sandbar up` made it."},
            },
        },
    })
}

fn parameters() -> Value {
    json!({
        "ApiVersion": {
            "name": API_VERSION_HEADER,
            "in": "header",
            "description": "The API the caller was made for. Without it: v1. One that is too old is refused.",
            "schema": {"type": "string", "examples": [format!("v{API_VERSION}")]},
        },
        "ConnectTimeout": {
            "name": "connect-timeout-ms",
            "in": "header",
            "description": "How long the caller waits, in milliseconds. The call is given up then.",
            "schema": {"type": "integer", "minimum": 0},
        },
    })
}
