"""Records behave as classes of the standard decorator, which they stand for."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from isamap.source import records

KINDS: tuple[dict[str, bool], ...] = (
    {},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True},
)


def _made(decorator: Any, facts: dict[str, bool]) -> type[Any]:
    @decorator(**facts)
    class Point:
        """A point."""

        x: int
        y: tuple[int, ...] = (1, 2)
        seen: list[int] = dataclasses.field(default_factory=list[int], compare=False)
        name: str = dataclasses.field(default="p", repr=False)
        total: int = dataclasses.field(init=False, compare=False)
        memo: int | None = dataclasses.field(default=None, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.x + sum(self.y))

    return Point


def _described(kind: type[Any]) -> dict[str, object]:
    """Return what can be told of a class by its use, as text where objects differ."""
    one, same, other = kind(x=3), kind(x=3, seen=[4]), kind(x=4, name="q")
    told: dict[str, object] = {
        "text": repr(one).rpartition("Point")[2],
        "equal": (one == one, one == same, one == other, one != other, one == 3),
        "signature": [
            (p.name, p.kind, p.default is p.empty) for p in inspect.signature(kind).parameters.values()
        ],
        "fields": [(f.name, f.init, f.compare, f.kw_only) for f in dataclasses.fields(kind)],
        "match": kind.__match_args__,
        "replaced": repr(records.replace(one, x=5, name="r")).rpartition("Point")[2],
        "dictionary": dataclasses.asdict(one),
        "copied": dataclasses.asdict(copy.copy(one)),
        "doc": kind.__doc__,
        "frozen": kind.__dataclass_params__.frozen,
        "slots": getattr(kind, "__slots__", None),
    }
    try:
        told["hash"] = hash(one) == hash(same), hash(one) == hash(other)
    except TypeError as error:
        told["hash"] = type(error)
    for word, change in (("set", lambda: setattr(one, "x", 1)), ("delete", lambda: delattr(one, "x"))):
        try:
            told[word] = change()
        except dataclasses.FrozenInstanceError as error:
            told[word] = str(error)
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError):
        records.replace(same, total=3)
    return told


def test_a_record_behaves_as_a_class_of_the_standard_decorator() -> None:
    for facts in KINDS:
        ours, theirs = (_described(_made(one, facts)) for one in (records.dataclass, dataclasses.dataclass))
        assert ours == theirs, facts


@records.dataclass(frozen=True, slots=True)
class Own:
    """A record with methods of its own."""

    x: int
    y: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.x == other.x

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return f"<{self.x}>"


@records.dataclass(frozen=True, slots=True)
class Further(Own):
    """A record whose base is one."""

    z: int = 5


@dataclasses.dataclass(frozen=True)
class Standard(Own):
    """A class of the standard decorator whose base is a record."""

    z: int = 5


@records.dataclass(frozen=True, slots=True)
class Partly:
    """A record whose hash leaves a field out."""

    x: int
    y: list[int] = dataclasses.field(hash=False)


def test_a_field_is_left_out_of_the_hash_where_it_says_so() -> None:
    assert hash(Partly(1, [2])) == hash(Partly(1, [3]))
    assert Partly(1, [2]) != Partly(1, [3])


def test_methods_that_a_class_has_itself_stay() -> None:
    assert Own(1, 2) == Own(1, 3)
    assert hash(Own(1)) == 7
    assert repr(Own(1)) == "<1>"
    assert pickle.loads(pickle.dumps(Own(1, 4))).y == 4  # noqa: S301 - it was written here


def test_records_inherit_from_records_and_from_standard_classes_alike() -> None:
    for kind in (Further, Standard):
        assert (kind(1, 2, 3).x, kind(1, 2, 3).z, kind(1).y) == (1, 3, 0)
        assert kind(1, 2) == kind(1, 2) != kind(1, 3)
        one: Any = kind(1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.z = 3


@records.dataclass(frozen=True, slots=True)
class Empty:
    """A record without fields."""


def test_a_record_without_fields_is_equal_to_its_like() -> None:
    assert len({Empty(), Empty()}) == 1
