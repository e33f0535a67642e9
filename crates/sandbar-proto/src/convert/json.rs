//! JSON inside messages.

use buffa::{Inline, MessageField};
use buffa_types::google::protobuf::{ListValue, Struct, Value as WireValue, value::Kind};
use sandbar_core::{Error, Result};
use serde_json::{Map, Number, Value};

/// Limit on nesting, against stack overflow.
const MAX_DEPTH: usize = 64;

/// 2⁵³: integers up to here are exact in the `double` of the wire.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Converts a JSON object to a message.
pub(super) type WireObject = MessageField<Struct, Inline<Struct>>;

pub(super) fn pack_object(object: &Map<String, Value>) -> Struct {
    let fields = object
        .iter()
        .map(|(name, value)| (name.clone(), pack(value)))
        .collect();
    Struct {
        fields,
        ..Default::default()
    }
}

fn pack(value: &Value) -> WireValue {
    let kind = match value {
        Value::Null => return WireValue::null(),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => {
            let values = items.iter().map(pack).collect();
            Kind::ListValue(Box::new(ListValue {
                values,
                ..Default::default()
            }))
        }
        Value::Object(object) => Kind::StructValue(Box::new(pack_object(object))),
    };
    WireValue {
        kind: Some(kind),
        ..Default::default()
    }
}

/// Converts a message to a JSON object; an absent message is empty.
pub(super) fn unpack_object(field: &'static str, object: WireObject) -> Result<Map<String, Value>> {
    unpack_struct(field, object.into_option().unwrap_or_default(), MAX_DEPTH)
}

fn unpack_struct(field: &'static str, object: Struct, depth: usize) -> Result<Map<String, Value>> {
    object
        .fields
        .into_iter()
        .map(|(name, value)| Ok((name, unpack(field, value, depth)?)))
        .collect()
}

fn unpack(field: &'static str, value: WireValue, depth: usize) -> Result<Value> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::invalid(
            field,
            format!("`{field}` is nested more than {MAX_DEPTH} levels deep"),
        ));
    };
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(value),
        Some(Kind::NumberValue(number)) => unpack_number(field, number)?,
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::ListValue(list)) => list
            .values
            .into_iter()
            .map(|value| unpack(field, value, depth))
            .collect::<Result<_>>()
            .map(Value::Array)?,
        Some(Kind::StructValue(object)) => Value::Object(unpack_struct(field, *object, depth)?),
    })
}

/// Converts a number; an integer stays one.
fn unpack_number(field: &'static str, number: f64) -> Result<Value> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and in range"
    )]
    let number = if number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER {
        Number::from(number as i64)
    } else {
        Number::from_f64(number)
            .ok_or_else(|| Error::invalid(field, format!("`{field}` holds {number}")))?
    };
    Ok(Value::Number(number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_survives_the_wire() {
        let sent = json!({"a": [1, 2.5, -3, null, true, "ü"], "b": {"c": {}}, "d": 9_007_199_254_740_991_i64});
        let Value::Object(sent) = sent else {
            panic!("not an object")
        };
        let received = unpack_object("params", MessageField::some(pack_object(&sent))).unwrap();
        assert_eq!(received, sent);
        assert_eq!(
            unpack_object("params", MessageField::none()).unwrap(),
            Map::new()
        );
    }

    #[test]
    fn json_with_nan_or_deep_nesting_is_rejected() {
        for number in [f64::NAN, f64::INFINITY] {
            let odd = Struct {
                fields: [("n".to_owned(), WireValue::from(number))]
                    .into_iter()
                    .collect(),
                ..Default::default()
            };
            assert_eq!(
                unpack_object("params", MessageField::some(odd))
                    .unwrap_err()
                    .field(),
                Some("params")
            );
        }
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        let Value::Object(deep) = json!({"deep": deep}) else {
            panic!("not an object")
        };
        let refused = unpack_object("params", MessageField::some(pack_object(&deep)));
        assert_eq!(refused.unwrap_err().field(), Some("params"));
    }
}
