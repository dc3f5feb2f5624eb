"""Read measured parameters of rows, streams, pages, loops and models from YAML, and check them.

rows: {start_ns: 5, short_start_ns: 20, short_bytes: 128, source: measured}
->  StatedParameters(RowTimes(5.0, 20.0, 128, source="measured"), …)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from typing import Any, Generic, TypeVar

from isamap.machine.fields import read_bytes, read_mapping, read_number, read_text
from isamap.machine.keys import BYTES, COUNT, NUMBER, TEXT, Keys, LeafKey
from isamap.machine.timings import AccessEnergy, LoopTimes, ModelFigures, RowTimes, StreamTimes, Tlb
from isamap.machine.tree import Findings, Node, ScalarNode
from isamap.source import Span, dataclass, fields, replace

T = TypeVar("T", RowTimes, StreamTimes, Tlb, LoopTimes, ModelFigures, AccessEnergy)


@dataclass(frozen=True, slots=True)
class StatedParameters(Generic[T]):
    """Parameters as written, with the citation of their source. `spans` are those of the values, by key."""

    figures: T
    source: ScalarNode | None
    spans: Mapping[str, Span]

    def changes(self, inherited: T) -> T:
        """Return the inherited parameters, replaced where this record states others, with both citations."""
        sources = dict.fromkeys(one.source for one in (self.figures, inherited) if one.source)
        stated = {name: getattr(self.figures, name) for name in self.spans}
        return replace(inherited, **stated, source=", ".join(sources))


def _figure(name: str) -> LeafKey:
    if name.endswith("_bytes_per_ns"):
        return LeafKey("number", 1e-6)  # it divides
    return BYTES if name.endswith("_bytes") else COUNT if name.endswith("count") else NUMBER


def figure_keys(kind: type[Any], required: Iterable[str] = ()) -> Keys:
    """Return the schema keys for the fields of a class of parameters."""
    figures = {f.name: _figure(f.name) for f in fields(kind) if f.name != "source"}
    return Keys({**figures, "source": TEXT}, (*required, "source"))


ROWS = figure_keys(RowTimes)
STREAMS = figure_keys(StreamTimes, [f.name for f in fields(StreamTimes) if f.default is MISSING])
TLB = figure_keys(Tlb, ("count", "page_bytes", "miss_ns"))
LOOPS = figure_keys(LoopTimes)
MODEL_KEYS = figure_keys(ModelFigures)
ENERGY = figure_keys(AccessEnergy, ("read_pj", "write_pj", "access_bytes"))


def read_row_times(node: Node | None, findings: Findings) -> StatedParameters[RowTimes] | None:
    """Return the value of a link's `rows`."""
    found = _read_stated(RowTimes, node, "`rows`", findings, ROWS)
    if found is not None:
        _check_together(found, "`rows`", ("short_start_ns", "short_bytes"), findings)
        _check_together(found, "`rows`", ("followed_count", "late_line_ns"), findings)
        _check_needed(found, "`rows`", "traffic_factor", "computing_factor", findings)
        _check_needed(found, "`rows`", "hinted_swept_count", "swept_ns", findings)
        _check_needed(found, "`rows`", "hinted_swept_ns", "hinted_swept_count", findings)
        _check_needed(found, "`rows`", "hinted_traffic_factor", "hinted_swept_count", findings)
        _check_needed(found, "`rows`", "hinted_traffic_factor", "computing_factor", findings)
        if {"hinted_swept_ns", "swept_ns"} <= found.spans.keys():
            _check_order(found, "hinted_swept_ns", "swept_ns", findings)
        if "short_start_ns" in found.spans:
            _check_order(found, "start_ns", "short_start_ns", findings)
    return found


def read_stream_times(node: Node | None, findings: Findings) -> StatedParameters[StreamTimes] | None:
    """Return the value of a link's `streams`."""
    found = _read_stated(StreamTimes, node, "`streams`", findings, STREAMS)
    if found is not None:
        _check_order(found, "hinted_computing_factor", "computing_factor", findings)
        _check_order(found, "hinted_start_ns", "row_start_ns", findings)
        _check_needed(found, "`streams`", "hinted_swept_start_ns", "swept_start_ns", findings)
    return found


def read_tlb(node: Node | None, findings: Findings) -> StatedParameters[Tlb] | None:
    """Return the value of `tlb`."""
    return _read_stated(Tlb, node, "`tlb`", findings, TLB)


def read_loop_times(node: Node | None, findings: Findings) -> StatedParameters[LoopTimes] | None:
    """Return the value of `loops`."""
    return _read_stated(LoopTimes, node, "`loops`", findings, LOOPS)


def read_energy(node: Node | None, findings: Findings) -> StatedParameters[AccessEnergy] | None:
    """Return the value of a memory's `energy`."""
    return _read_stated(AccessEnergy, node, "`energy`", findings, ENERGY)


def read_model(node: Node | None, findings: Findings) -> StatedParameters[ModelFigures] | None:
    """Return the value of `model`."""
    found = _read_stated(ModelFigures, node, "`model`", findings, MODEL_KEYS)
    if found is not None:
        for name in ("leak_factor", "stream_leak_factor"):
            _check_part(found, name, "at least", findings)
        _check_part(found, "usable_factor", "above", findings)
    return found


def _read_stated(
    kind: type[T], node: Node | None, what: str, findings: Findings, table: Keys
) -> StatedParameters[T] | None:
    """Return the parameters of a mapping whose keys are a class's fields, or None if one of them is not a number."""
    if node is None:
        return None
    names = [name for name in table.values if name != "source"]
    keys = read_mapping(node, what, table, findings)
    source = read_text(keys.get("source"), "`source`", findings)
    values: dict[str, Any] = {}
    for name in names:
        value = _read_figure(name, keys.get(name), findings)
        if value is not None:
            values[name] = value
    if any(name in keys and name not in values for name in names) or any(
        n not in values for n in table.required if n != "source"
    ):
        return None
    figures = kind(**values, source=source.text if source is not None else "")
    return StatedParameters(figures, source, {name: keys[name].span for name in values})


def _read_figure(name: str, node: Node | None, findings: Findings) -> float | None:
    leaf = _figure(name)
    if leaf == BYTES:
        return read_bytes(node, f"`{name}`", findings)
    whole = leaf.kind == "whole"
    value = read_number(node, f"`{name}`", findings, lowest=leaf.least, whole=whole)
    return int(value) if whole and value is not None else value


def _check_part(found: StatedParameters[T], name: str, least: str, findings: Findings) -> None:
    """Add a finding if a fraction exceeds 1, or is 0 and must not be 0."""
    value = getattr(found.figures, name)
    if name in found.spans and not (0 < value <= 1 or (value == 0 and least == "at least")):
        findings.report(
            "number-out-of-range", f"`{name}` is {value:g}; it should be {least} 0, and at most 1",
            found.spans[name],
        )  # fmt: skip


def _check_together(
    found: StatedParameters[T], what: str, names: tuple[str, str], findings: Findings
) -> None:
    """Add a finding if only one of two parameters is given."""
    for name, other in (names, names[::-1]):
        _check_needed(found, what, name, other, findings)


def _check_needed(found: StatedParameters[T], what: str, name: str, other: str, findings: Findings) -> None:
    """Add a finding if a parameter is given without another one on which it depends."""
    if name in found.spans and other not in found.spans:
        findings.report(
            "missing-key", f"{what} gives `{name}` without `{other}`", found.spans[name],
            advice=f"add `{other}: …`",
        )  # fmt: skip


def _check_order(found: StatedParameters[T], small: str, large: str, findings: Findings) -> None:
    """Add a finding if a parameter is less than another one that is its lower limit."""
    least, value = getattr(found.figures, small), getattr(found.figures, large)
    if value < least:
        findings.report(
            "number-out-of-range", f"`{large}` is {value:g}; it should be at least `{small}`, {least:g}",
            found.spans[large],
        )  # fmt: skip
