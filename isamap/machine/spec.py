"""One description file as data. Every key is read and checked alone. Language text is not yet parsed.

It reads no other files: `load` resolves names and inheritance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingType
from typing import TypeVar, assert_never

from isamap.machine import allowed, encoding_fields, families, fields, timing_fields
from isamap.machine.families import Row, read_rows
from isamap.machine.keys import (
    BYTES,
    COUNT,
    EXPRESSION,
    FLAG,
    NUMBER,
    TEXT,
    Keys,
    LeafKey,
    ListOf,
    NamedBy,
    OneOf,
    Value,
    one_of,
)
from isamap.machine.link_fields import LINK, LinkSpec, read_link
from isamap.machine.target_fields import TARGET, TargetSpec, read_target
from isamap.machine.timings import AccessEnergy, LoopTimes, ModelFigures, Tlb
from isamap.machine.tree import Findings, MappingNode, Node, ScalarNode
from isamap.source import Span, dataclass, is_digits
from isamap.source.numbers import BYTES_PER_UNIT

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """The facts of a description about one memory that the text declares."""

    name: ScalarNode
    c_types: MappingType[str, str]
    c_variables: MappingType[str, str]
    source: ScalarNode | None
    energy: timing_fields.StatedParameters[AccessEnergy] | None = None
    area_mm2: float | None = None
    area_mm2_per_kib: float | None = None


@dataclass(frozen=True, slots=True)
class UnitSpec:
    """A unit as written."""

    name: str
    count: int
    source: ScalarNode | None
    products_per_cycle: int | None = None
    queued: int | None = None
    span: Span | None = None
    area_mm2: float = 0.0


@dataclass(frozen=True, slots=True)
class LevelSpec:
    """An execution level as written."""

    name: ScalarNode
    count: int | None
    most: int | None
    at_once: int
    memories: tuple[ScalarNode, ...]
    barrier_ns: float
    residents: int


@dataclass(frozen=True, slots=True)
class StateSpec:
    """The memory image of a state: its size and where its fields are, all in bytes."""

    name: ScalarNode
    size_bytes: int
    offsets: tuple[tuple[ScalarNode, int], ...]


@dataclass(frozen=True, slots=True)
class TimeSpec:
    """A time, or an energy, as written, and whether it is in cycles."""

    text: ScalarNode
    in_cycles: bool


@dataclass(frozen=True, slots=True)
class CostSpec:
    """A cost as written. A part that was refused is None, so that the other parts are still checked."""

    unit: ScalarNode | None
    interval: TimeSpec | None
    latency: TimeSpec | None
    also: ScalarNode | None = None
    energy: TimeSpec | None = None

    @property
    def texts(self) -> tuple[ScalarNode, ...]:
        times = (time.text for time in (self.interval, self.latency, self.energy) if time is not None)
        return (*(unit for unit in (self.unit, self.also) if unit is not None), *times)


@dataclass(frozen=True, slots=True)
class InstructionSpec:
    """An instruction, or a family of them, as written."""

    rows: tuple[Row, ...]
    semantics: ScalarNode
    emit: ScalarNode | None
    barrier: bool
    cost: CostSpec | None
    source: ScalarNode | None
    span: Span
    encoding: encoding_fields.EncodingSpec | None = None
    is_asynchronous: bool = False

    @property
    def texts(self) -> tuple[ScalarNode, ...]:
        """All texts in which a variable of the family may occur."""
        cost = self.cost.texts if self.cost is not None else ()
        words = self.encoding.texts if self.encoding is not None else ()
        return (self.semantics, *(t for t in (self.emit, *cost, self.source) if t is not None), *words)


@dataclass(frozen=True, slots=True)
class Spec:
    """The content of one description file."""

    name: ScalarNode | None
    summary: str
    extends: ScalarNode | None
    sources: MappingType[str, str]
    target: TargetSpec
    clock_ghz: float | None
    thread_start_ns: float | None
    language: ScalarNode | None
    memories: tuple[MemorySpec, ...]
    links: tuple[LinkSpec, ...]
    units: tuple[UnitSpec, ...]
    levels: tuple[LevelSpec, ...]
    tlb: timing_fields.StatedParameters[Tlb] | None
    loops: timing_fields.StatedParameters[LoopTimes] | None
    model: timing_fields.StatedParameters[ModelFigures] | None
    states: tuple[StateSpec, ...]
    remove: tuple[ScalarNode, ...]
    instructions: tuple[InstructionSpec, ...]
    program: encoding_fields.ProgramSpec | None = None
    host: ScalarNode | None = None


VERSION = "1"
_AREAS = dict.fromkeys(("area_mm2", "area_mm2_per_kib"), NUMBER)
MEMORY = Keys(
    {
        "c_types": NamedBy(TEXT),
        "c_variables": NamedBy(TEXT),
        "energy": timing_fields.ENERGY,
        **_AREAS,
        "source": TEXT,
    }
)
UNIT = Keys(
    {"count": COUNT, "products_per_cycle": COUNT, "queued": COUNT, "area_mm2": NUMBER, "source": TEXT},
    ("count",),
)
LEVEL = Keys(
    {
        "count": COUNT,
        "up_to": COUNT,
        "at_once": COUNT,
        "residents": COUNT,
        "memories": ListOf(TEXT),
        "barrier_ns": NUMBER,
    }
)
FIELD = Keys({"offset_bytes": LeafKey("bytes")}, ("offset_bytes",))
STATE = Keys({"bytes": BYTES, "fields": NamedBy(FIELD)}, ("bytes", "fields"))
_TIMES = ("interval_ns", "interval_cycles", "latency_ns", "latency_cycles")
COST = Keys({"unit": TEXT, "also": TEXT, **dict.fromkeys((*_TIMES, "energy_pj"), EXPRESSION)}, ("unit",))
INSTRUCTION = Keys(
    {
        "for": families.ROWS,
        "semantics": TEXT,
        "emit": TEXT,
        "encoding": encoding_fields.WORDS,
        "entries": encoding_fields.ENTRIES,
        "barrier": FLAG,
        "asynchronous": FLAG,
        "cost": COST,
        "source": TEXT,
    },
    ("semantics", "emit", "cost", "source"),
)
MACHINE = Keys(
    {
        "isamap": one_of(lambda: (VERSION,)),
        "name": TEXT,
        "summary": TEXT,
        "extends": TEXT,
        "sources": NamedBy(TEXT),
        "target": TARGET,
        "clock_ghz": LeafKey("number", 0.001),
        "thread_start_ns": NUMBER,
        "language": TEXT,
        "memories": NamedBy(MEMORY),
        "links": ListOf(LINK),
        "units": NamedBy(UNIT),
        "levels": NamedBy(LEVEL),
        "tlb": timing_fields.TLB,
        "loops": timing_fields.LOOPS,
        "model": timing_fields.MODEL_KEYS,
        "states": NamedBy(STATE),
        "program": encoding_fields.PROGRAM,
        "host": TEXT,
        "remove": ListOf(TEXT),
        "instructions": ListOf(INSTRUCTION),
    },
    ("name", "summary"),
)


def read_spec(root: MappingNode, findings: Findings) -> Spec:
    """Return the file as data. Errors are added to `findings`."""
    _check_version(root, findings)
    keys = fields.read_mapping(root, "a machine", MACHINE, findings)
    name = fields.read_text(keys.get("name"), "`name`", findings)
    summary = fields.read_text(keys.get("summary"), "`summary`", findings)

    def named(key: str, read: Callable[[ScalarNode, Node, Findings], T | None]) -> tuple[T, ...]:
        entries = fields.read_names(keys.get(key), f"`{key}`", findings)
        return tuple(found for k, v in entries if (found := read(k, v, findings)) is not None)

    def listed(key: str, read: Callable[[Node, Findings], T | None]) -> tuple[T, ...]:
        items = fields.read_items(keys.get(key), f"`{key}`", findings)
        return tuple(found for item in items if (found := read(item, findings)) is not None)

    return Spec(
        name,
        summary.text.strip() if summary is not None else "",
        fields.read_text(keys.get("extends"), "`extends`", findings),
        dict(named("sources", _read_source)),
        read_target(keys.get("target"), findings),
        fields.read_number(keys.get("clock_ghz"), "`clock_ghz`", findings, lowest=0.001),
        fields.read_number(keys.get("thread_start_ns"), "`thread_start_ns`", findings, lowest=0),
        fields.read_text(keys.get("language"), "`language`", findings),
        named("memories", _read_memory),
        listed("links", read_link),
        named("units", _read_unit),
        named("levels", _read_level),
        timing_fields.read_tlb(keys.get("tlb"), findings),
        timing_fields.read_loop_times(keys.get("loops"), findings),
        timing_fields.read_model(keys.get("model"), findings),
        named("states", _read_state),
        listed("remove", _read_removed),
        listed("instructions", _read_instruction),
        encoding_fields.read_program(keys.get("program"), findings),
        fields.read_text(keys.get("host"), "`host`", findings),
    )


def _check_version(root: MappingNode, findings: Findings) -> None:
    if not root.entries or root.entries[0][0].text != "isamap":
        span = root.entries[0][0].span if root.entries else root.span
        findings.report(
            "spec-version", "the first key of a machine is `isamap`", span, advice="start with `isamap: 1`"
        )
        return
    value = root.entries[0][1]
    if not isinstance(value, ScalarNode) or value.text != VERSION:
        said = f"`{value.text}`" if isinstance(value, ScalarNode) else "this"
        findings.report(
            "spec-version",
            f"{said} is not a version of the format",
            value.span,
            advice=f"write `isamap: {VERSION}`",
        )


# --- memories, links, units, states -----------------------------------------------------------------------


def _read_source(key: ScalarNode, node: Node, findings: Findings) -> tuple[str, str] | None:
    text = fields.read_text(node, f"source `{key.text}`", findings)
    return (key.text, text.text) if text is not None else None


def _read_removed(node: Node, findings: Findings) -> ScalarNode | None:
    return fields.read_text(node, "an item of `remove`", findings)


def _read_memory(name: ScalarNode, node: Node, findings: Findings) -> MemorySpec:
    keys = fields.read_mapping(node, f"memory `{name.text}`", MEMORY, findings)
    c_types, c_variables = (_read_c_types(keys.get(key), key, findings) for key in ("c_types", "c_variables"))
    areas = [fields.read_number(keys.get(key), f"`{key}`", findings) for key in _AREAS]
    source = fields.read_text(keys.get("source"), "`source`", findings)
    _require_source(source, name, [keys[key] for key in _AREAS if key in keys], findings)
    energy = timing_fields.read_energy(keys.get("energy"), findings)
    return MemorySpec(name, c_types, c_variables, source, energy, *areas)


def _read_c_types(node: Node | None, key: str, findings: Findings) -> dict[str, str]:
    c_types: dict[str, str] = {}
    for dtype, c_type in fields.read_names(node, f"`{key}`", findings):
        text = fields.read_text(c_type, f"the C type of {dtype.text}", findings)
        if dtype.text not in allowed.c_type_keys():
            findings.unknown("unknown-type", "type", dtype.text, dtype.span, allowed.c_type_keys())
        elif text is not None and not allowed.is_c_type(text.text):
            findings.report(
                "unknown-c-type", f"the C type `{text.text}` is not allowed", text.span,
                f"allowed are {allowed.shown_types()}",
            )  # fmt: skip
        elif text is not None:
            c_types[dtype.text] = text.text
    return c_types


def _require_source(
    source: ScalarNode | None, name: ScalarNode, stated: Sequence[Node], findings: Findings
) -> None:
    """Report an area or energy without a source."""
    if stated and source is None:
        said = f"`{name.text}` states an area and no `source` of it"
        findings.report("missing-key", said, stated[0].span, advice="add `source: …`")


def _read_unit(name: ScalarNode, node: Node, findings: Findings) -> UnitSpec | None:
    keys = fields.read_mapping(node, f"unit `{name.text}`", UNIT, findings)
    count, peak, queued = (
        None if found is None else int(found)
        for key in ("count", "products_per_cycle", "queued")
        for found in [fields.read_number(keys.get(key), f"`{key}`", findings, lowest=1, whole=True)]
    )
    source = fields.read_text(keys.get("source"), "`source`", findings)
    area = fields.read_number(keys.get("area_mm2"), "`area_mm2`", findings)
    _require_source(source, name, [keys["area_mm2"]] if "area_mm2" in keys else [], findings)
    return None if count is None else UnitSpec(name.text, count, source, peak, queued, name.span, area or 0.0)


def _read_level(name: ScalarNode, node: Node, findings: Findings) -> LevelSpec:
    keys = fields.read_mapping(node, f"level `{name.text}`", LEVEL, findings)
    count, most, at_once, residents = (
        None if number is None else int(number)
        for key in ("count", "up_to", "at_once", "residents")
        for number in [fields.read_number(keys.get(key), f"`{key}`", findings, lowest=1, whole=True)]
    )
    items = fields.read_items(keys.get("memories"), "`memories`", findings)
    memories = tuple(
        text for item in items if (text := fields.read_text(item, "a memory", findings)) is not None
    )
    barrier_ns = fields.read_number(keys.get("barrier_ns"), "`barrier_ns`", findings, lowest=0)
    return LevelSpec(name, count, most, at_once or 1, memories, barrier_ns or 0.0, residents or 1)


def _read_state(name: ScalarNode, node: Node, findings: Findings) -> StateSpec | None:
    keys = fields.read_mapping(node, f"state `{name.text}`", STATE, findings)
    size = fields.read_bytes(keys.get("bytes"), "`bytes`", findings)
    offsets: list[tuple[ScalarNode, int]] = []
    for field, value in fields.read_names(keys.get("fields"), "`fields`", findings):
        place = fields.read_mapping(value, f"field `{field.text}`", FIELD, findings)
        offset = fields.read_bytes(place.get("offset_bytes"), "`offset_bytes`", findings, lowest=0)
        offsets += [(field, offset)] if offset is not None else []
    return StateSpec(name, size, tuple(offsets)) if size is not None else None


# --- instructions -----------------------------------------------------------------------------------------


def _read_instruction(node: Node, findings: Findings) -> InstructionSpec | None:
    keys = fields.read_mapping(node, "an instruction", INSTRUCTION, findings)
    rows = read_rows(keys.get("for"), findings)
    semantics = fields.read_text(keys.get("semantics"), "`semantics`", findings)
    emit = fields.read_text(keys.get("emit"), "`emit`", findings)
    barrier = fields.read_flag(keys.get("barrier"), "`barrier`", findings)
    cost = _read_cost(keys["cost"], findings) if "cost" in keys else None
    source = fields.read_text(keys.get("source"), "`source`", findings)
    encoding = encoding_fields.read_encoding(
        keys.get("encoding"), "`encoding`", findings, keys.get("entries")
    )
    if semantics is None or not rows:
        return None
    later = fields.read_flag(keys.get("asynchronous"), "`asynchronous`", findings)
    return InstructionSpec(rows, semantics, emit, barrier, cost, source, node.span, encoding, later)


def _read_cost(node: Node, findings: Findings) -> CostSpec:
    keys = fields.read_mapping(node, "`cost`", COST, findings)
    unit = fields.read_text(keys.get("unit"), "`unit`", findings)
    # A key that was refused is taken for the missing one misspelt.
    is_whole = isinstance(node, MappingNode) and len(keys) == len(node.entries)
    interval = _read_time("interval", keys, node, findings, is_whole)
    latency = _read_time("latency", keys, node, findings, is_whole)
    energy = fields.read_text(keys.get("energy_pj"), "`energy_pj`", findings)
    stated = TimeSpec(energy, in_cycles=False) if energy is not None else None
    return CostSpec(unit, interval, latency, fields.read_text(keys.get("also"), "`also`", findings), stated)


def _read_time(
    name: str, keys: dict[str, Node], node: Node, findings: Findings, is_whole: bool
) -> TimeSpec | None:
    """Return a time in a cost, or None. With `is_whole`, a missing time is an error."""
    given = [key for key in (f"{name}_ns", f"{name}_cycles") if key in keys]
    if len(given) != 1:
        if given or is_whole:
            said = f"gives `{name}` twice" if given else f"does not give `{name}`"
            findings.report(
                "missing-key" if not given else "given-twice", f"`cost` {said}", node.span,
                advice=f"write `{name}_ns` or `{name}_cycles`",
            )  # fmt: skip
        return None
    text = fields.read_text(keys[given[0]], f"`{given[0]}`", findings)
    return TimeSpec(text, given[0].endswith("cycles")) if text is not None else None


# --- the JSON Schema, for editors: keys, words and numbers; `isamap hw check` also checks references -------

DRAFT = "https://json-schema.org/draft/2020-12/schema"
SIZE = rf"^[0-9]{{1,12}} ?({'|'.join(BYTES_PER_UNIT)})$"


def machine_schema() -> dict[str, object]:
    """Return the schema of a description's file."""
    head = {"$schema": DRAFT, "title": "isamap machine description"}
    return {**head, **_schema(MACHINE)}


def _schema(value: Value) -> dict[str, object]:
    match value:
        case LeafKey():
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


def _leaf(leaf: LeafKey) -> dict[str, object]:
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
