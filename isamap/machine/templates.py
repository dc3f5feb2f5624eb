"""Templates of new descriptions: questions for each kind of machine, and a text built from the answers.

`begin("edge", "matrix", {"rows": 32})` is a description of an array of 32 by 32 cells, all else as usual.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping

from isamap.hw_specs import template_kinds_text, template_text
from isamap.source import UsageProblem, dataclass, did_you_mean


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """A parameter of a new machine. `is_size` marks bytes, which may be written in KiB."""

    name: str
    question: str
    usual: float
    least: float = 1
    most: float = 1 << 40
    is_size: bool = False
    is_whole: bool = True
    multiple: int = 1


@dataclass(frozen=True, slots=True)
class TemplateKind:
    """A kind of machine: its questions, and the other inputs of its template."""

    summary: str
    asked: tuple[TemplateParameter, ...]
    derived: Callable[[Mapping[str, float]], Mapping[str, object]]


def _vector(given: Mapping[str, float]) -> Mapping[str, object]:
    return {"lanes": int(given["bytes"]) // 4, "link": f"{2 * given['bytes'] * given['clock_ghz']:g}"}


def _matrix(given: Mapping[str, float]) -> Mapping[str, object]:
    rows, bus, clock = int(given["rows"]), int(given["bus_bytes"]), given["clock_ghz"]
    return {
        "cells": rows * rows, "latency": 3 * rows, "row_bytes": 4 * rows, "bus": bus, "words": bus // 4,
        "link": f"{bus * clock:g}", "row_link": f"{4 * rows * clock:g}",
        "spad": _size(given["spad_bytes"]), "sums": _size(given["sums_bytes"]),
    }  # fmt: skip


def _dsp(given: Mapping[str, float]) -> Mapping[str, object]:
    size, bus, clock = int(given["bytes"]), int(given["bus_bytes"]), given["clock_ghz"]
    return {
        "lanes": size // 4, "wide_bytes": 4 * size, "local": _size(given["local_bytes"]), "bus": bus,
        "words": bus // 4, "link": f"{bus * clock:g}", "port": f"{2 * size * clock:g}",
    }  # fmt: skip


def _cluster(given: Mapping[str, float]) -> Mapping[str, object]:
    bus, clock = int(given["bus_bytes"]), given["clock_ghz"]
    return {
        "near": _size(given["near_bytes"]), "bus": bus, "words": bus // 4, "link": f"{bus * clock:g}",
        "port": f"{16 * clock:g}", "barrier": f"{20 / clock:g}",
    }  # fmt: skip


def _abstract(given: Mapping[str, float]) -> Mapping[str, object]:
    n, k = int(given["n"]), int(given["k"])
    return {"n_bytes": 4 * n, "k_bytes": 4 * k, "peak": n * k}


_DERIVED = {
    "vector": _vector, "matrix": _matrix, "npu": _matrix, "dsp": _dsp, "cluster": _cluster,
    "abstract": _abstract,
}  # fmt: skip


def _read_kinds() -> dict[str, TemplateKind]:
    return {
        kind: TemplateKind(
            told["summary"], tuple(TemplateParameter(**p) for p in told["asked"]), _DERIVED[kind]
        )
        for kind, told in tomllib.loads(template_kinds_text()).items()
    }


KINDS: Mapping[str, TemplateKind] = _read_kinds()
"""The kinds of machines for which `hw new` writes a template."""

_PLACE = re.compile("@([A-Z_]+)@")


def begin(name: str, kind: str, given: Mapping[str, float]) -> str:
    """Return the text of a new description. Parameters that are not given have typical values."""
    answers = {asked.name: given.get(asked.name, asked.usual) for asked in KINDS[kind].asked}
    values: dict[str, object] = {"name": name, **answers, **KINDS[kind].derived(answers)}
    return _PLACE.sub(lambda found: _show_default(values[found[1].lower()]), template_text(kind))


def read_figure(asked: TemplateParameter, word: str, sizes: Mapping[str, int]) -> float:
    """Return the value of a parameter in a command-line word. Raises: UsageProblem for an invalid word."""
    number = re.fullmatch("([0-9]{1,12}(?:[.][0-9]{1,6})?) ?([A-Za-z]*)", word.strip())
    scale = sizes.get(number[2], 1 if number[2] == "" else 0) if number else 0
    value = float(number[1]) * scale if number else 0.0
    bounds = f"{_bind_value(asked, asked.least)} to {_bind_value(asked, asked.most)}"
    rule = f", a multiple of {asked.multiple}" if asked.multiple > 1 else ""
    is_fine = asked.least <= value <= asked.most and (value % asked.multiple == 0 or not asked.is_whole)
    if (scale != 1 and not asked.is_size) or not is_fine:
        said = f"{asked.name} is {bounds}{rule}, not `{word[:40]}`"
        raise UsageProblem.of("option-value", said, help=f"it is the {asked.question}")
    return int(value) if asked.is_whole else value


def asked_of(kind: str, name: str) -> TemplateParameter:
    """Return the parameter with a name. Raises: UsageProblem if the kind has none."""
    found = next((asked for asked in KINDS[kind].asked if asked.name == name), None)
    if found is None:
        known = [asked.name for asked in KINDS[kind].asked]
        said = f"a machine of kind {kind} has no `{name[:40]}`"
        notes = (f"known: {', '.join(known)}",)
        raise UsageProblem.of("unknown-figure", said, notes=notes, help=did_you_mean(name, known))
    return found


def _bind_value(asked: TemplateParameter, value: float) -> str:
    return _size(value) if asked.is_size else f"{value:g}"


def _size(value: float) -> str:
    units = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
    unit, scale = next(((u, s) for u, s in units if value >= s and value % s == 0), ("", 1))
    return f"{int(value // scale)} {unit}".rstrip()


def _show_default(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
