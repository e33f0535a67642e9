//! Definitions of tools.

use rmcp::model::{JsonObject, ProtocolVersion, Tool};
use serde_json::{Map, Value, json};

use super::hints::Hints;
use crate::{
    sandboxes::DefaultSandbox,
    version::{has_annotations, has_structured_content},
};

/// Parameter of every tool that works in a sandbox.
pub(crate) const SANDBOX: &str = "sandbox";

/// Use of parameter `sandbox` by a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorksIn {
    /// The tool has no such parameter.
    NoSandbox,
    /// The named sandbox, or the default.
    Sandbox,
    /// The parameter is required even with a default, so that nothing is destroyed by omission.
    NamedSandbox,
}

/// Tool definition.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) hints: Option<Hints>,
    /// JSON Schema of its parameters, without `sandbox`.
    pub(crate) input: Value,
    /// JSON Schema of its structured content.
    pub(crate) output: Option<Value>,
    pub(crate) works_in: WorksIn,
}

impl Definition {
    pub(crate) fn to_tool(&self, version: &ProtocolVersion, default: &DefaultSandbox) -> Tool {
        let mut tool = Tool::new(
            self.name.clone(),
            self.description.clone(),
            fields(self.input_schema(default)),
        );
        if let Some(hints) = self.hints.filter(|_| has_annotations(version)) {
            tool.annotations = Some(hints.to_annotations());
        }
        if has_structured_content(version) {
            tool.title = self.hints.map(|hints| hints.title.to_owned());
            tool.output_schema = self.output.clone().map(|output| fields(output).into());
        }
        tool
    }

    /// Returns the schema of the parameters, with `sandbox` first.
    fn input_schema(&self, default: &DefaultSandbox) -> Value {
        let mut schema = self.input.clone();
        if self.works_in == WorksIn::NoSandbox {
            return schema;
        }
        let must_name = default.is_nothing() || self.works_in == WorksIn::NamedSandbox;
        let about = if must_name {
            DefaultSandbox::nothing().explain()
        } else {
            default.explain()
        };
        let mut properties = Map::from_iter([(
            SANDBOX.into(),
            json!({"type": "string", "description": about}),
        )]);
        if let Some(Value::Object(others)) = schema.get_mut("properties").map(Value::take) {
            properties.extend(others);
        }
        schema["properties"] = properties.into();
        if must_name {
            let others = schema
                .get("required")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            schema["required"] = std::iter::once(SANDBOX.into()).chain(others).collect();
        }
        schema
    }
}

fn fields(schema: Value) -> JsonObject {
    match schema {
        Value::Object(fields) => fields,
        _ => JsonObject::new(),
    }
}

/// Returns the schema of an object with these properties and no others.
#[expect(clippy::needless_pass_by_value, reason = "called with `json!` values")]
pub(crate) fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

#[cfg(test)]
mod tests {
    use sandbar_core::SessionId;

    use super::*;

    fn definition(works_in: WorksIn) -> Definition {
        Definition {
            name: "tool".into(),
            description: "does things".into(),
            hints: Some(Hints::reads("Do things")),
            input: object(json!({"path": {"type": "string"}}), &["path"]),
            output: Some(object(json!({}), &[])),
            works_in,
        }
    }

    #[test]
    fn sandbox_is_required_unless_there_is_a_default() {
        let version = ProtocolVersion::V_2025_06_18;
        let given = DefaultSandbox::given(SessionId::new("box").unwrap());
        let schema = |works_in, default: &DefaultSandbox| {
            Value::Object(
                definition(works_in)
                    .to_tool(&version, default)
                    .input_schema
                    .as_ref()
                    .clone(),
            )
        };
        assert_eq!(
            schema(WorksIn::Sandbox, &DefaultSandbox::nothing())["required"],
            json!(["sandbox", "path"])
        );
        assert_eq!(
            schema(WorksIn::Sandbox, &given)["required"],
            json!(["path"])
        );
        assert!(
            schema(WorksIn::Sandbox, &given)["properties"]["sandbox"]["description"]
                .to_string()
                .contains("box")
        );
        assert_eq!(
            schema(WorksIn::NamedSandbox, &given)["required"],
            json!(["sandbox", "path"])
        );
        assert!(
            schema(WorksIn::NoSandbox, &given)["properties"]
                .get("sandbox")
                .is_none()
        );
    }

    #[test]
    fn older_versions_get_only_the_fields_they_know() {
        let shown =
            |version| definition(WorksIn::Sandbox).to_tool(&version, &DefaultSandbox::nothing());
        let oldest = shown(ProtocolVersion::V_2024_11_05);
        assert!(oldest.annotations.is_none() && oldest.title.is_none());
        let old = shown(ProtocolVersion::V_2025_03_26);
        assert!(old.annotations.is_some() && old.output_schema.is_none());
        let new = shown(ProtocolVersion::V_2026_07_28);
        assert!(new.annotations.is_some() && new.output_schema.is_some());
        assert_eq!(new.title.as_deref(), Some("Do things"));
    }
}
