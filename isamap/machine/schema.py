"""The JSON Schema of descriptions, for editors, generated from the tables that the readers use.

    bandwidth_bytes_per_ns: {type: number, minimum: 1e-6}

A schema checks keys, words and numbers. `isamap hw check` also checks references of names and meanings of
texts.
"""

from __future__ import annotations

from typing import assert_never

from isamap.machine.keys import Keys, Leaf, ListOf, NamedBy, OneOf, Value
from isamap.machine.spec import MACHINE
from isamap.source import is_digits
from isamap.source.numbers import BYTES_PER_UNIT

DRAFT = "https://json-schema.org/draft/2020-12/schema"
SIZE = rf"^[0-9]{{1,12}} ?({'|'.join(BYTES_PER_UNIT)})$"


def machine_schema() -> dict[str, object]:
    """Return the schema of a description's file."""
    head = {"$schema": DRAFT, "title": "isamap machine description"}
    return {**head, **_schema(MACHINE)}


def _schema(value: Value) -> dict[str, object]:
    match value:
        case Leaf():
            return _leaf(value)
        case ListOf(item, least):
            return {"type": "array", "items": _schema(item), **({"minItems": least} if least else {})}
        case NamedBy(inner, pattern):
            names = {"propertyNames": {"pattern": f"^{pattern}$"}} if pattern else {}
            return {"type": "object", "additionalProperties": _schema(inner), **names}
        case OneOf(kinds):
            return {"anyOf": [_schema(kind) for kind in kinds]}
        case Keys(values, required):
            needed = {"required": list(required)} if required else {}
            properties = {key: _schema(inner) for key, inner in values.items()}
            return {"type": "object", "properties": properties, "additionalProperties": False, **needed}
        case _ as unreachable:
            assert_never(unreachable)


def _leaf(leaf: Leaf) -> dict[str, object]:
    # A plain 16 of YAML is a number, and a text to the readers, which take what is written.
    text: dict[str, object] = {"type": ["string", "number", "boolean"]}
    match leaf.kind:
        case "text" if leaf.words is not None:
            known = sorted(leaf.words())
            return {"enum": [*known, *(int(word) for word in known if is_digits(word))]}
        case "text" | "expression":
            return text
        case "number":
            return {"type": "number", "minimum": leaf.least}
        case "whole":
            return {"type": "integer", "minimum": leaf.least}
        case "bytes":
            return {
                "anyOf": [{"type": "integer", "minimum": leaf.least}, {"type": "string", "pattern": SIZE}]
            }
        case "flag":
            return {"type": "boolean"}
