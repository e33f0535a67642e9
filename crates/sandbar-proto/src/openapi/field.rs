//! Schemas of fields by the JSON mapping of proto3.

use buffa_descriptor::generated::descriptor::{
    FieldDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use serde_json::{Value, json};

use super::{catalog::Catalog, schema::reference, well_known};

/// Returns the JSON name of a field.
pub(super) fn json_name(field: &FieldDescriptorProto) -> String {
    if let Some(name) = field.json_name.as_ref().filter(|name| !name.is_empty()) {
        return name.clone();
    }
    let mut words = field.name.as_deref().unwrap_or_default().split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        name + &head.to_uppercase() + tail
    })
}

/// Returns the schema of a field with its comment.
pub(super) fn schema(catalog: &Catalog<'_>, field: &FieldDescriptorProto, comment: &str) -> Value {
    let mut schema = match entry(catalog, field) {
        Some(value) => json!({"type": "object", "additionalProperties": one(value)}),
        None if is_repeated(field) => json!({"type": "array", "items": one(field)}),
        None => one(field),
    };
    if let (Some(object), false) = (schema.as_object_mut(), comment.is_empty()) {
        object.insert("description".to_owned(), comment.into());
    }
    schema
}

/// Returns the value field of a map. JSON has keys of all types as strings.
fn entry<'a>(
    catalog: &Catalog<'a>,
    field: &FieldDescriptorProto,
) -> Option<&'a FieldDescriptorProto> {
    let message = catalog
        .messages
        .get(type_name(field))
        .filter(|_| is_repeated(field))?;
    let is_entry = message.descriptor.options.map_entry.unwrap_or_default();
    message
        .descriptor
        .field
        .iter()
        .find(|field| is_entry && field.number == Some(2))
}

/// Returns the schema of one value of a field, repeated or not.
fn one(field: &FieldDescriptorProto) -> Value {
    match field.r#type.unwrap_or_default() {
        Type::TYPE_BOOL => json!({"type": "boolean"}),
        Type::TYPE_STRING => json!({"type": "string"}),
        Type::TYPE_BYTES => json!({"type": "string", "contentEncoding": "base64"}),
        Type::TYPE_DOUBLE => json!({"type": "number", "format": "double"}),
        Type::TYPE_FLOAT => json!({"type": "number", "format": "float"}),
        Type::TYPE_INT32 | Type::TYPE_SINT32 | Type::TYPE_SFIXED32 => {
            json!({"type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX})
        }
        Type::TYPE_UINT32 | Type::TYPE_FIXED32 => {
            json!({"type": "integer", "format": "uint32", "minimum": 0, "maximum": u32::MAX})
        }
        // 64-bit integers are strings: JavaScript numbers cannot represent them.
        Type::TYPE_INT64 | Type::TYPE_SINT64 | Type::TYPE_SFIXED64 => {
            json!({"type": "string", "format": "int64", "pattern": "^-?[0-9]+$"})
        }
        Type::TYPE_UINT64 | Type::TYPE_FIXED64 => {
            json!({"type": "string", "format": "uint64", "pattern": "^[0-9]+$"})
        }
        Type::TYPE_ENUM => reference(type_name(field)),
        Type::TYPE_MESSAGE | Type::TYPE_GROUP => {
            well_known::schema(type_name(field)).unwrap_or_else(|| reference(type_name(field)))
        }
    }
}

/// Returns the full name of a field's message or enum.
pub(super) fn type_name(field: &FieldDescriptorProto) -> &str {
    field
        .type_name
        .as_deref()
        .unwrap_or_default()
        .trim_start_matches('.')
}

fn is_repeated(field: &FieldDescriptorProto) -> bool {
    field.label == Some(Label::LABEL_REPEATED)
}
