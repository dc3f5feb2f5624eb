"""Frozen dataclasses as JSON and back, whatever their fields: how a job reaches the solver's process.

    write(Cache("l1", 32768, 64.0))
    ->  {"classes": ["isamap.plan.problem:Cache"], "objects": [[0, "l1", 32768, 64.0, 0]], "root": {"is": 0}}

Each object stands once, however often it is referred to: costs share their parts, and their readers
rely on it. Fields go by position, so that a new field travels by itself; both ends are one version of this
program. No pickle: what is read makes dataclasses of this program, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, cast

Json = Any  # what json.loads gives
OWN_MODULES = (
    "isamap.emit.c:",
    "isamap.emit.c_interface:",
    "isamap.ir.atoms:",
    "isamap.ir.dtypes:",
    "isamap.ir.index:",
    "isamap.ir.nodes:",
    "isamap.lower.program:",
    "isamap.machine.target_fields:",
    "isamap.machine.timings:",
    "isamap.match.tiles.windows:",
    "isamap.plan.",
    "isamap.scheduler.",
    "isamap.source.",
)


def write(value: object) -> str:
    """Return the value as one line of JSON: dataclasses, tuples, mappings, numbers, strings and None, nested."""
    writer = _Writer()
    root = writer.written(value)
    return json.dumps({"classes": list(writer.classes), "objects": writer.objects, "root": root})


def read(text: str | bytes) -> Any:
    """Return the value that was written. Raises: ValueError for what `write` cannot have made."""
    data: Json = json.loads(text)
    classes = [_class(name) for name in data["classes"]]
    objects: list[object] = []
    for which, *values in data["objects"]:
        objects.append(cast("object", classes[which](*(_read(value, objects) for value in values))))
    return _read(data["root"], objects)


class _Writer:
    """Objects in the order in which they can be made again. `kept` keeps alive what `places` knows by id."""

    def __init__(self) -> None:
        self.classes: dict[str, int] = {}
        self.objects: list[list[Json]] = []
        self.places: dict[int, int] = {}
        self.kept: list[object] = []

    def written(self, value: object) -> Json:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case tuple():
                return [self.written(item) for item in cast("tuple[object, ...]", value)]
            case Mapping():
                pairs = cast("Mapping[object, object]", value).items()
                return {"map": [[self.written(key), self.written(item)] for key, item in pairs]}
            case _:
                return {"is": self._place(value)}

    def _place(self, value: object) -> int:
        if id(value) not in self.places:
            name = f"{type(value).__module__}:{type(value).__qualname__}"
            which = self.classes.setdefault(name, len(self.classes))
            _class(name)
            own = [self.written(getattr(value, field)) for field in _field_names(type(value))]
            self.objects.append([which, *own])
            self.places[id(value)] = len(self.objects) - 1
            self.kept.append(value)
        return self.places[id(value)]


def _read(value: Json, objects: list[object]) -> Any:
    match value:
        case list():
            return tuple(_read(item, objects) for item in cast("list[Json]", value))
        case {"map": pairs}:
            return {_read(key, objects): _read(item, objects) for key, item in pairs}
        case {"is": place}:
            return objects[place]
        case _:
            return value


@cache
def _class(name: str) -> type[Any]:
    module, _, qualified = name.partition(":")
    found: Any = getattr(import_module(module), qualified, None) if name.startswith(OWN_MODULES) else None
    if not (isinstance(found, type) and is_dataclass(found)):
        raise ValueError(f"{name} is no dataclass of plans or schedulers")
    return found


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)
