"""The schema of descriptions: the keys of each mapping, their types, and the required ones.

The readers look their keys up here, and `isamap hw schema` prints the same tables for editors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class LeafKey:
    """A value without keys. If `words` are given, the value is one of them."""

    kind: Literal["text", "number", "whole", "bytes", "flag", "expression"]
    least: float = 0
    words: Callable[[], tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list with a least number of values of one kind."""

    item: Value
    least: int = 0


@dataclass(frozen=True, slots=True)
class NamedBy:
    """A mapping whose keys are the writer's own names."""

    value: Value
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value of any of some kinds."""

    kinds: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """A mapping with a fixed set of keys."""

    values: Mapping[str, Value]
    required: tuple[str, ...] = ()


Value = LeafKey | ListOf | NamedBy | OneOf | Keys

TEXT = LeafKey("text")
NUMBER = LeafKey("number")
BYTES = LeafKey("bytes", 1)
COUNT = LeafKey("whole", 1)
FLAG = LeafKey("flag")
EXPRESSION = LeafKey("expression")
"""A number, or an expression of an instruction's parameters."""


def one_of(known: Callable[[], tuple[str, ...]]) -> LeafKey:
    """Return a text that is one of a few words."""
    return LeafKey("text", words=known)
