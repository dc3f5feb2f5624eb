"""A profile: the measured parameters of a machine on one processor, as readable text.

    {"isamap_profile": 1, "machine": "x86-avx512", "cpu": {...}, "instructions": [...], "sha256": "…"}

The sha256 is that of all other content. A profile with another digest is refused.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast

from isamap.machine.processor import Cpu
from isamap.source import Source, UsageProblem, asdict, dataclass, fields, read_json, show_value
from isamap.source.numbers import Spread
from isamap.tune.measured_parameters import (
    BandwidthFigure,
    CacheFigure,
    InstructionFigure,
    PackingFigure,
    PieceFigure,
    RowFigure,
    RowReading,
    StreamFigure,
    Unmeasured,
    UnmeasuredPacking,
)

FORMAT = 1
MOST = 1 << 53
"""The limit of every parameter: no measurement exceeds it, in nanoseconds or bytes, and floats represent it exactly.
"""
ACCESSES = ("read", "write", "update")
Figure = TypeVar("Figure")
_SPREAD = ("min", "low_quartile", "median", "high_quartile")


@dataclass(frozen=True)
class Profile:
    """All measurements of one calibration. `when` is its start time in UTC."""

    machine: str
    machine_digest: str
    cpu: Cpu
    compiler: str
    when: str
    instructions: tuple[InstructionFigure, ...]
    bandwidths: tuple[BandwidthFigure, ...] = ()
    packing: tuple[PackingFigure, ...] = ()
    thread_start: Spread | None = None
    caches: tuple[CacheFigure, ...] = ()
    rows: tuple[RowFigure, ...] = ()
    unmeasured_rows: tuple[Unmeasured, ...] = ()
    streams: StreamFigure | None = None
    unmeasured_streams: Unmeasured | None = None
    pieces: PieceFigure | None = None
    unmeasured_pieces: Unmeasured | None = None
    unmeasured_packing: tuple[UnmeasuredPacking, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The sha256 of the profile's content."""
        return _digest(_content(self))

    def figure(self, instruction: str) -> tuple[InstructionFigure, ...]:
        """Return the measured times of an instruction, one record for each combination of its parameters."""
        return tuple(f for f in self.instructions if f.instruction == instruction)

    def bandwidth(self, memory: str, access: str = "read") -> float | None:
        """Return the best bandwidth of a memory, or None if it was not measured. Units: bytes per ns."""
        found = [b.ns_per_byte.least for b in self.bandwidths if (b.memory, b.access) == (memory, access)]
        return 1 / found[0] if found and found[0] > 0 else None


def print_profile(profile: Profile) -> str:
    """Return the profile as text."""
    content = _content(profile)
    entries = [_entry(key, value) for key, value in {**content, "sha256": _digest(content)}.items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _entry(key: str, value: object) -> str:
    """Return a key with its value. Each item of a list has its own line."""
    if not isinstance(value, list) or not value:
        return f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
    items = ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in cast(list[object], value))
    return f"{json.dumps(key)}: [\n{items}\n]"


@lru_cache(maxsize=8)
def parse_profile(source: Source) -> Profile:
    """Return the profile in a text. Raises: UsageProblem if it is none, of another format, or damaged."""
    try:
        stored: Any = read_json(source.text)
    except ValueError as error:
        raise _refuse_profile("profile-unreadable", f"{source.name} is not a profile: {error}") from None
    if not isinstance(stored, dict) or "isamap_profile" not in stored:
        raise _refuse_profile(
            "profile-unreadable", f"{source.name} is not a profile: it has no `isamap_profile`"
        )
    content = cast(dict[str, Any], stored)
    if content["isamap_profile"] != FORMAT:
        raise _refuse_profile(
            "profile-version",
            f"{source.name} has format {show_value(content['isamap_profile'])}; this version of isamap reads "
            f"{FORMAT}",
        )
    stated = content.pop("sha256", None)
    if stated != _digest(content):
        raise _refuse_profile(
            "profile-damaged", f"{source.name} is not as it was written: its sha256 differs"
        )
    try:
        return _profile(content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _refuse_profile("profile-unreadable", f"{source.name} is not a profile: {error!r}") from None


def _refuse_profile(code: str, said: str) -> UsageProblem:
    return UsageProblem.of(code, said, help="make one with `isamap hw calibrate`, or say `--profile none`")


# --- to JSON ----------------------------------------------------------------------------------------------


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _content(profile: Profile) -> dict[str, Any]:
    cpu = profile.cpu
    return {
        "isamap_profile": FORMAT,
        "machine": profile.machine,
        "machine_digest": profile.machine_digest,
        "cpu": {
            "name": cpu.name,
            "numbers": dict(cpu.numbers),
            "microcode": cpu.microcode,
            "features": list(cpu.features),
        },
        "compiler": profile.compiler,
        "when": profile.when,
        "thread_start_ns": _spread_json(profile.thread_start),
        "bandwidths": [
            {
                "memory": b.memory,
                "access": b.access,
                "instruction": b.instruction,
                "size_bytes": b.size_bytes,
                "bandwidth_bytes_per_ns": _short(1 / _short(b.ns_per_byte.least)),
                "ns_per_byte": _spread_json(b.ns_per_byte),
            }
            for b in profile.bandwidths
        ],
        "packing": [
            {"way": p.way, "element_bytes": p.element_bytes, "ns_per_element": _spread_json(p.ns_per_element)}
            for p in profile.packing
        ],
        **_optional_parts(profile),
        "instructions": [
            {
                "instruction": f.instruction,
                "params": dict(f.params),
                "interval_ns": _spread_json(f.interval),
                "latency_ns": _spread_json(f.latency),
                "said": f.said,
            }
            for f in profile.instructions
        ],
    }


def _optional_parts(profile: Profile) -> dict[str, object]:
    """Return the optional parts of a profile. Empty parts are omitted, so that old digests stay valid."""
    found: dict[str, object] = {
        "caches": [_cache_json(c) for c in profile.caches],
        "unmeasured_packing": [asdict(p) for p in profile.unmeasured_packing],
        "rows": [_row_json(r) for r in profile.rows],
        "unmeasured_rows": [asdict(r) for r in profile.unmeasured_rows],
        "streams": _figures_json(profile.streams),
        "unmeasured_streams": profile.unmeasured_streams and asdict(profile.unmeasured_streams),
        "pieces": _figures_json(profile.pieces),
        "unmeasured_pieces": profile.unmeasured_pieces and asdict(profile.unmeasured_pieces),
    }
    return {name: value for name, value in found.items() if value}


def _cache_json(cache: CacheFigure) -> dict[str, object]:
    content = asdict(cache)
    if cache.kept_ns is None:  # so that a profile from before it was measured keeps its digest
        del content["kept_ns"]
    return content


def _figures_json(found: StreamFigure | PieceFigure | None) -> dict[str, object]:
    if found is None:
        return {}
    stored = {name: value for name, value in asdict(found).items() if value is not None}
    return {name: _short(value) if isinstance(value, float) else value for name, value in stored.items()}


def _row_json(row: RowFigure) -> dict[str, object]:
    found: dict[str, object] = {"swept_ns": _short(row.swept_ns)} if row.swept_ns else {}
    if row.hinted_swept_count:
        found |= {
            "hinted_swept_count": row.hinted_swept_count,
            "hinted_swept_ns": _short(row.hinted_swept_ns),
        }
    if row.hinted_traffic_factor is not None:
        found["hinted_traffic_factor"] = _short(row.hinted_traffic_factor)
    return {
        "memory": row.memory,
        "piece_bytes": row.piece_bytes,
        "start_ns": _short(row.start_ns),
        "hinted_start_ns": None if row.hinted_start_ns is None else _short(row.hinted_start_ns),
        "swept_count": row.swept_count,
        "computing_factor": _short(row.computing_factor),
        "traffic_factor": _short(row.traffic_factor),
        **({} if row.crowded_ns is None else {"crowded_ns": _short(row.crowded_ns)}),
        **({} if row.crowded_piece_ns is None else {"crowded_piece_ns": _short(row.crowded_piece_ns)}),
        **found,
        "readings": [
            {
                "computed": r.computed,
                "together": r.together,
                "hinted": r.hinted,
                "piece_ns": _short(r.piece_ns),
            }
            for r in row.readings
        ],
    }


def _spread_json(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    values = (spread.least, spread.low, spread.middle, spread.high)
    return {n: _short(v) for n, v in zip(_SPREAD, values, strict=True)} | {"count": spread.count}


def _short(value: float) -> float:
    """Return a number rounded to five significant digits, beyond which it is noise."""
    return float(f"{value:.5g}")


def _profile(content: dict[str, Any]) -> Profile:
    cpu = content["cpu"]
    return Profile(
        _value("str", content["machine"]),
        _value("str", content["machine_digest"]),
        Cpu(
            _value("str", cpu["name"]),
            tuple((name, _value("str", value)) for name, value in cpu["numbers"].items()),
            _value("str", cpu["microcode"]),
            tuple(_value("str", feature) for feature in cpu["features"]),
        ),
        _value("str", content["compiler"]),
        _value("str", content["when"]),
        tuple(
            InstructionFigure(
                _value("str", f["instruction"]),
                tuple((name, _value("int", value)) for name, value in f["params"].items()),
                _spread(f["interval_ns"]),
                _spread(f["latency_ns"]),
                _value("str", f["said"]),
            )
            for f in content["instructions"]
        ),
        tuple(
            BandwidthFigure(
                _value("str", b["memory"]),
                _value("str", b["access"]),
                _value("str", b["instruction"]),
                _value("int", b["size_bytes"]),
                _read_spread(b["ns_per_byte"]),
            )
            for b in content["bandwidths"]
        ),
        tuple(
            PackingFigure(
                _value("str", p["way"]), _value("int", p["element_bytes"]), _read_spread(p["ns_per_element"])
            )
            for p in content["packing"]
        ),
        _spread(content["thread_start_ns"]),
        tuple(_record(CacheFigure, c) for c in content.get("caches", ())),
        tuple(_row(r) for r in content.get("rows", ())),
        tuple(_record(Unmeasured, r) for r in content.get("unmeasured_rows", ())),
        _record(StreamFigure, content["streams"]) if "streams" in content else None,
        _record(Unmeasured, content["unmeasured_streams"]) if "unmeasured_streams" in content else None,
        _record(PieceFigure, content["pieces"]) if "pieces" in content else None,
        _record(Unmeasured, content["unmeasured_pieces"]) if "unmeasured_pieces" in content else None,
        tuple(_record(UnmeasuredPacking, p) for p in content.get("unmeasured_packing", ())),
    )


def _row(stored: dict[str, Any]) -> RowFigure:
    readings = tuple(_record(RowReading, reading) for reading in stored["readings"])
    return _record(RowFigure, {**stored, "hinted_start_ns": stored["hinted_start_ns"]}, readings=readings)


def _spread(stored: dict[str, Any] | None) -> Spread | None:
    return None if stored is None else _read_spread(stored)


def _read_spread(stored: dict[str, Any]) -> Spread:
    least, low, middle, high = (_value("float", stored[name]) for name in _SPREAD)
    return Spread(least, low, middle, high, _value("int", stored["count"]))


def _record(kind: type[Figure], stored: dict[str, Any], **given: object) -> Figure:
    """Return a record of this class from the fields in a text.

    Raises: TypeError, ValueError, KeyError if the text has no such record.
    """
    types = {field.name: str(field.type) for field in fields(cast("Any", kind))}
    read = {name: _value(types[name], value) for name, value in stored.items() if name not in given}
    return kind(**read, **given)


def _value(kind: str, value: Any) -> Any:
    """Return a value of the annotated type. Numbers that no measurement gives are refused. Raises: ValueError."""
    expected = kind.removesuffix(" | None")
    match value:
        case None if expected != kind:
            return None
        case bool():
            if expected == "bool":
                return value
        case str():
            if expected == "str":
                return value
        case int() | float() if 0 <= value <= MOST:  # which no NaN is
            if expected == "float":
                return float(value)
            if expected == "int" and isinstance(value, int):
                return value
        case _:
            pass
    raise ValueError(f"{show_value(value)} is no {expected}")
