"""Judges the description of the API, and what a host really said by it. Reads one JSON object from stdin."""

import copy
import json
import sys

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator, validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012


def strict(part):
    """The same schemas, without room for undescribed properties."""
    if isinstance(part, dict):
        if part.get("type") == "object" and "properties" in part:
            part.setdefault("additionalProperties", False)
        for inner in part.values():
            strict(inner)
    elif isinstance(part, list):
        for inner in part:
            strict(inner)
    return part


def media(content):
    for kind in content.values():
        return kind.get("schema") or kind["x-itemSchema"]


given = json.load(sys.stdin)
document = given["document"]
validate(document, cls=OpenAPIV31SpecValidator)
for name, schema in document["components"]["schemas"].items():
    Draft202012Validator.check_schema(schema)

narrow = strict(copy.deepcopy(document))
registry = Registry().with_resource("urn:api", Resource(contents=narrow, specification=DRAFT202012))


def complaints(schema, value):
    schema = json.loads(json.dumps(schema).replace('"#/', '"urn:api#/'))
    validator = Draft202012Validator(schema, registry=registry)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


wrong = []
for seen in given["seen"]:
    operation = narrow["paths"]["/sandbar.v1.SandboxService/" + seen["call"]]["post"]
    schema = {
        "request": lambda: media(operation["requestBody"]["content"]),
        "response": lambda: media(operation["responses"]["200"]["content"]),
        "error": lambda: {"$ref": "#/components/schemas/connect.Error"},
    }[seen["kind"]]()
    found = complaints(schema, seen["value"])
    if bool(found) == seen["fits"]:
        wrong.append(f"{seen['call']} {seen['kind']}: {found or 'a wrong value fits'}: {json.dumps(seen['value'])[:400]}")

if wrong:
    sys.exit("\n".join(wrong))
print(len(given["seen"]))
