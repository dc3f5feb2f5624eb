"""Convert frozen dataclasses to JSON and back: jobs of the solver, and cached results.

    write(Cache("l1", 32768, 64.0))
    ->  {"classes": ["isamap.plan.problem:Cache"], "rows": [[3, "l1", [32768], 64.0, [0]]], "root": 0}

A row is an object: the number of its class, then its fields. 0 is a tuple, 1 a mapping, 2 a frozen set. A
number n refers to the object of row n, so each object is stored once: costs share their parts, and their
readers rely on it. `[n]` is the integer n, which is rarer. Fields are stored by position, so that a new field
needs no code. Writer and reader are the same version of this program.

A text may come from a stranger, for instance from a cache. Reading creates only dataclasses of this program,
and checks each field against its annotation. It does not use pickle.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from isamap.source.records import fields, is_dataclass

Json = Any  # what json.loads gives
T = TypeVar("T")
OWN_MODULES = (
    "isamap.emit.c:",
    "isamap.emit.c_interface:",
    "isamap.ir.dtypes:",
    "isamap.ir.index:",
    "isamap.ir.nodes:",
    "isamap.lower.program:",
    "isamap.machine.",
    "isamap.plan.",
    "isamap.scheduler.",
    "isamap.source.diagnostic:",
    "isamap.source.numbers:",
)
_NOT_WRITTEN = (
    TypeError, LookupError, AttributeError, NameError, RecursionError, ArithmeticError, AssertionError,
    ImportError,
)  # fmt: skip
_SCALARS = (bool, int, float, str, NoneType)
_BUILT_IN: tuple[Callable[..., object], ...] = (
    lambda *values: values,
    lambda *values: dict(zip(map(_plain, values[::2]), values[1::2], strict=True)),
    lambda *values: frozenset(map(_plain, values)),
)


def write(value: object, known: Sequence[object] = (), *, merges: bool = False) -> str:
    """Return a value of dataclasses, tuples, mappings, frozen sets, numbers, strings and None as one line.

    Readers have the objects of `known` already. Rows are numbered after them. With `merges`, equal objects are one.
    """
    writer = _Writer(known, merges=merges)
    root = writer.written(value)
    text = {"classes": list(writer.classes), "rows": writer.rows, "root": root}
    return json.dumps(text, separators=(",", ":"))


def read_value(text: str | bytes, known: Sequence[object] = ()) -> Any:
    """Return the value that was written. Raises: ValueError for a text that `write` cannot have made."""
    try:
        data: Json = json.loads(text)
        makers: list[Callable[..., object]] = [*_BUILT_IN, *map(_class, data["classes"])]
        given: list[list[list[Any]]] = [[] for _ in makers]
        objects: list[Any] = list(known)
        for which, *row in data["rows"]:
            values: list[Any] = [
                objects[v] if v.__class__ is int else v[0] if v.__class__ is list else v for v in row
            ]
            objects.append(makers[int(which)](*values))
            given[which].append(values)
        classes = cast("list[type[Any]]", makers[len(_BUILT_IN) :])
        all_hints = _hints_in(tuple(classes))
        for kind, hints, rows in zip(classes, all_hints, given[len(_BUILT_IN) :], strict=True):
            if any(len(row) != len(hints) for row in rows):
                raise TypeError(f"a row of {kind} has not {len(hints)} fields")
            for (name, hint), column in zip(hints, zip(*rows, strict=True), strict=False):
                if not _are(hint, column):
                    raise ValueError(f"{kind.__name__}.{name} is of another type")
        root: Json = data["root"]
        return objects[root] if root.__class__ is int else root[0] if root.__class__ is list else root
    except _NOT_WRITTEN as error:
        raise ValueError(f"this is not a text of `write`: {error}") from None


def read_as(kind: type[T], text: str | bytes | None, known: Sequence[object] = ()) -> T | None:
    """Return the value of a class that was written, or None for a text that `write` cannot have made of one."""
    try:
        found = read_value(text, known) if text is not None else None
    except ValueError:
        return None
    return found if isinstance(found, kind) else None


class _Writer:
    """Objects in order of construction. `kept` keeps alive the objects that `places` knows by id."""

    def __init__(self, known: Sequence[object], *, merges: bool) -> None:
        self.classes: dict[str, int] = {}
        self.rows: list[list[Json]] = []
        self.places = {id(value): place for place, value in enumerate(known)}
        self.kept = list(known)
        self.merged: dict[str, int] | None = {} if merges else None
        self.first = len(known)

    def written(self, value: object) -> Json:
        if isinstance(value, _SCALARS):
            return value if isinstance(value, bool) or not isinstance(value, int) else [value]
        place = self.places.get(id(value))
        if place is None:
            row = self._row(value)
            place = self.first + len(self.rows)
            if self.merged is not None:
                place = self.merged.setdefault(repr(row), place)
            if place == self.first + len(self.rows):
                self.rows.append(row)
            self.places[id(value)] = place
            self.kept.append(value)
        return place

    def _row(self, value: object) -> list[Json]:
        written = self.written
        match value:
            case tuple():
                return [0, *map(written, cast("tuple[object, ...]", value))]
            case Mapping():
                pairs = cast("Mapping[object, object]", value).items()
                return [1, *map(written, chain.from_iterable(pairs))]
            case frozenset():
                return [2, *sorted(map(written, cast("frozenset[object]", value)), key=str)]
            case _:
                name, names = _describe(type(value))
                number = len(_BUILT_IN) + self.classes.setdefault(name, len(self.classes))
                return [number, *[written(getattr(value, field)) for field in names]]


def _plain(value: Any) -> Any:
    """Return a hashable key or set element. Raises: TypeError if computing its hash may take long."""
    if not isinstance(value, _SCALARS) and not all(isinstance(one, _SCALARS) for one in value):
        raise TypeError("keys are numbers, texts, or tuples of them")
    return value


@cache
def _class(name: str) -> type[Any]:
    module, _, qualified = name.partition(":")
    found: Any = getattr(import_module(module), qualified, None) if name.startswith(OWN_MODULES) else None
    if not (isinstance(found, type) and is_dataclass(found)):
        raise ValueError(f"{name} is not a dataclass that `write` takes")
    return found


@cache
def _describe(kind: type[Any]) -> tuple[str, tuple[str, ...]]:
    """Return the name of a class, and those of its fields."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    return name, _field_names(_class(name))


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)


@cache
def hints_of(kind: type[Any]) -> dict[str, Any]:
    """Return the annotations of a class by field. To evaluate them takes long."""
    return get_type_hints(kind)


@lru_cache(maxsize=256)
def _hints_in(classes: tuple[type[Any], ...]) -> list[list[tuple[str, Any]]]:
    """Return each field with its annotation, for each of the classes of a text, which may name each other."""
    names = {kind.__name__: kind for kind in classes}
    found: list[list[tuple[str, Any]]] = []
    for kind in classes:
        hints = get_type_hints(kind, localns={**names, **vars(sys.modules[kind.__module__])})
        found.append([(name, hints[name]) for name in _field_names(kind)])
    return found


def _are(hint: Any, values: Iterable[Any]) -> bool:
    """Return whether all values fit an annotation. Classes are compared once instead of each value."""
    values = list(values)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        plain = tuple(arg for arg in args if get_origin(arg) is None)
        others = [arg for arg in args if arg not in plain]
        left = [
            value for kind, value in zip(map(type, values), values, strict=True) if not _is_any(plain, kind)
        ]
        if len(others) == 1:
            return _are(others[0], left)
        return all(any(_judge(arg)(value) for arg in others) for value in left)
    if origin is tuple and args[-1:] == (...,):
        return set(map(type, values)) <= {tuple} and _are(args[0], chain.from_iterable(values))
    if origin is None and hint is not Any:
        return all(_is_any((hint,), kind) for kind in set(map(type, values)))
    return all(map(_judge(hint), values))


@cache
def _is_any(hints: tuple[Any, ...], kind: type[Any]) -> bool:
    """Return whether a class satisfies one of the annotations. bool is not accepted for int."""
    return any(
        hint in (Any, object)
        or (
            kind in ((int, float) if hint is float else (hint,))
            if hint in _SCALARS
            else issubclass(kind, hint)
        )
        for hint in hints
    )


def has_type(value: object, hint: Any) -> bool:
    """Return whether a value fits an annotation. A mapping is a dict, and a bool is not an int."""
    return _judge(hint)(value)


Judge = Callable[[Any], bool]


@cache
def _judge(hint: Any) -> Judge:
    """Return a predicate that accepts exactly the values of an annotation."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return lambda value: True
    if origin is Literal:
        return lambda value: isinstance(value, _SCALARS) and value in args
    if origin in (Union, UnionType):
        judges = [_judge(arg) for arg in args]
        return lambda value: any(judge(value) for judge in judges)
    if origin is tuple and args[-1] is not ...:
        judges = [_judge(arg) for arg in args]

        def judge_each(value: Any) -> bool:
            right = value.__class__ is tuple and len(value) == len(judges)
            return right and all(judge(one) for judge, one in zip(judges, value, strict=True))

        return judge_each
    if origin in (tuple, frozenset):
        item = _judge(args[0])
        return lambda value: value.__class__ is origin and all(map(item, value))
    if origin is not None and issubclass(origin, Mapping):
        key, item = map(_judge, args)
        return lambda value: (
            value.__class__ is dict and all(map(key, value)) and all(map(item, value.values()))
        )
    if hint in _SCALARS:
        kinds = (int, float) if hint is float else (hint,)
        return lambda value: value.__class__ in kinds
    return lambda value: isinstance(value, hint)
