//! JSON Schemas of messages and enums.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    catalog::{Catalog, Enum, Message},
    field, well_known,
};

/// Returns a reference to the schema of a message or enum.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Returns the schemas of these messages and of all types they use, by name.
pub(super) fn schemas(
    catalog: &Catalog<'_>,
    roots: impl IntoIterator<Item = String>,
) -> Map<String, Value> {
    let mut found = Map::new();
    let mut waiting: BTreeSet<String> = roots.into_iter().collect();
    while let Some(name) = waiting.pop_first() {
        if found.contains_key(&name) || well_known::schema(&name).is_some() {
            continue;
        }
        if let Some(kind) = catalog.enums.get(&name) {
            found.insert(name, of_enum(kind));
        } else if let Some(message) = catalog.messages.get(&name) {
            // Map entries are messages with fields as well.
            waiting.extend(mentioned(catalog, message));
            found.insert(name, of_message(catalog, message));
        }
    }
    found
}

/// Returns the message and enum types of a message's fields.
fn mentioned(catalog: &Catalog<'_>, message: &Message<'_>) -> Vec<String> {
    let names = message
        .descriptor
        .field
        .iter()
        .map(field::type_name)
        .filter(|name| !name.is_empty());
    let (entries, others): (Vec<&str>, Vec<&str>) = names.partition(|name| {
        catalog
            .messages
            .get(*name)
            .is_some_and(|named| named.descriptor.options.map_entry.unwrap_or_default())
    });
    let values = entries
        .into_iter()
        .filter_map(|entry| catalog.messages.get(entry));
    let values = values.flat_map(|entry| mentioned(catalog, entry));
    others
        .into_iter()
        .map(str::to_owned)
        .chain(values)
        .collect()
}

fn of_message(catalog: &Catalog<'_>, message: &Message<'_>) -> Value {
    let fields = message.descriptor.field.iter().zip(&message.field_comments);
    let properties: Map<String, Value> = fields
        .map(|(field, comment)| {
            (
                field::json_name(field),
                field::schema(catalog, field, comment),
            )
        })
        .collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !message.comment.is_empty() {
        schema["description"] = message.comment.clone().into();
    }
    let choices: Vec<Value> = (0..)
        .zip(&message.oneof_comments)
        .filter_map(|(index, comment)| choice(message, index, comment))
        .collect();
    if !choices.is_empty() {
        schema["allOf"] = choices.into();
    }
    schema
}

/// Restricts a oneof to at most one field. The compiler represents an `optional` field as a oneof
/// of its own, which is skipped.
fn choice(message: &Message<'_>, index: i32, comment: &str) -> Option<Value> {
    let fields = message.descriptor.field.iter();
    let members = fields.filter(|field| {
        field.oneof_index == Some(index) && !field.proto3_optional.unwrap_or_default()
    });
    let present: Vec<Value> = members
        .map(|field| json!({"required": [field::json_name(field)]}))
        .collect();
    if present.is_empty() {
        return None;
    }
    let absent = json!({"not": {"anyOf": present}});
    let mut choice = json!({"oneOf": present.into_iter().chain([absent]).collect::<Vec<_>>()});
    if !comment.is_empty() {
        choice["description"] = comment.into();
    }
    Some(choice)
}

fn of_enum(kind: &Enum<'_>) -> Value {
    let names: Vec<&str> = kind
        .descriptor
        .value
        .iter()
        .filter_map(|value| value.name.as_deref())
        .collect();
    let explained = names
        .iter()
        .zip(&kind.value_comments)
        .filter(|(_, comment)| !comment.is_empty());
    let list =
        explained.map(|(name, comment)| format!("- `{name}`: {}", comment.replace('\n', " ")));
    let description = [kind.comment.clone()]
        .into_iter()
        .chain([String::new()])
        .chain(list)
        .collect::<Vec<_>>()
        .join("\n");
    json!({"type": "string", "enum": names, "description": description.trim()})
}
