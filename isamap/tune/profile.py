"""A profile: the measured parameters of a machine on one processor, as readable text.

    {"isamap_profile": 1, "machine": "x86-avx512", "cpu": {...}, "instructions": [...], "sha256": "…"}

The sha256 is that of all other content. A profile with another digest is refused.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property, lru_cache
from types import NoneType
from typing import Any, cast, get_args, get_origin

from isamap.machine.processor import Cpu
from isamap.source import Source, UsageProblem, dataclass, fields, is_dataclass, read_json, show_value
from isamap.source.codec import hints_of
from isamap.source.numbers import Spread
from isamap.tune import measured_parameters as parameters

FORMAT = 1
MOST = 1 << 53
"""The limit of every parameter: no measurement exceeds it, in nanoseconds or bytes, and floats represent it exactly.
"""
ACCESSES = ("read", "write", "update")


@dataclass(frozen=True)
class Profile:
    """All measurements of one calibration. `when` is its start time in UTC."""

    machine: str
    machine_digest: str
    cpu: Cpu
    compiler: str
    when: str
    instructions: tuple[parameters.InstructionFigure, ...]
    bandwidths: tuple[parameters.BandwidthFigure, ...] = ()
    packing: tuple[parameters.PackingFigure, ...] = ()
    thread_start: Spread | None = None
    caches: tuple[parameters.CacheFigure, ...] = ()
    rows: tuple[parameters.RowFigure, ...] = ()
    unmeasured_rows: tuple[parameters.Unmeasured, ...] = ()
    streams: parameters.StreamFigure | None = None
    unmeasured_streams: parameters.Unmeasured | None = None
    pieces: parameters.PieceFigure | None = None
    unmeasured_pieces: parameters.Unmeasured | None = None
    unmeasured_packing: tuple[parameters.UnmeasuredPacking, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The sha256 of the profile's content."""
        return _digest(_content(self))

    def figure(self, instruction: str) -> tuple[parameters.InstructionFigure, ...]:
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
        return _record(Profile, {key: content[key] for key in content if key != "isamap_profile"})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _refuse_profile("profile-unreadable", f"{source.name} is not a profile: {error!r}") from None


def _refuse_profile(code: str, said: str) -> UsageProblem:
    return UsageProblem.of(code, said, help="make one with `isamap hw calibrate`, or say `--profile none`")


# --- as JSON ----------------------------------------------------------------------------------------------

_NAMES = {
    "thread_start": "thread_start_ns",
    "interval": "interval_ns",
    "latency": "latency_ns",
    "least": "min",
    "low": "low_quartile",
    "middle": "median",
    "high": "high_quartile",
}
"""The names in a profile of fields that are called otherwise there."""
_ALWAYS = ("bandwidths", "packing", "thread_start", "said", "traffic_factor")
"""Fields that a profile has even where they are as usual. Others are omitted then, so that old digests stay valid."""
_DERIVED = "bandwidth_bytes_per_ns"
"""The field that only people read: it follows from another one."""


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _content(profile: Profile) -> dict[str, Any]:
    content = {"isamap_profile": FORMAT, **_json(Any, profile)}
    content["instructions"] = content.pop("instructions")  # the longest list stands last
    return content


def _json(hint: Any, value: Any) -> Any:
    """Return a value of an annotated type as JSON: records by field, pairs as an object, numbers as measured."""
    match value:
        case float():
            return _short(value)
        case tuple() if _is_of_pairs(hint):
            return dict(cast("tuple[tuple[str, object], ...]", value))
        case tuple():
            return [_json(Any, one) for one in cast("tuple[object, ...]", value)]
        case _ if is_dataclass(value):
            return _record_json(value)
        case _:
            return value


def _record_json(record: Any) -> dict[str, Any]:
    kinds = hints_of(cast("type[Any]", type(record)))
    stored = {f.name: (getattr(record, f.name), f.default) for f in fields(record)}
    found: dict[str, Any] = {
        _NAMES.get(name, name): _json(kinds[name], value)
        for name, (value, usual) in stored.items()
        if value != usual or name in _ALWAYS
    }
    if isinstance(record, parameters.BandwidthFigure):
        found[_DERIVED] = _short(1 / _short(record.ns_per_byte.least))
    if isinstance(record, parameters.RowFigure) and record.hinted_swept_count:
        found["hinted_swept_ns"] = _short(record.hinted_swept_ns)
    return found


def _short(value: float) -> float:
    """Return a number rounded to five significant digits, beyond which it is noise."""
    return float(f"{value:.5g}")


def _is_of_pairs(hint: Any) -> bool:
    """Return whether a type is a tuple of pairs of a name and a value."""
    return get_origin(hint) is tuple and get_origin(get_args(hint)[0]) is tuple


def _value(hint: Any, value: Any) -> Any:
    """Return a value of the annotated type. Numbers that no measurement gives are refused.

    Raises: TypeError, ValueError, KeyError, AttributeError if the text has no such value.
    """
    inner = get_args(hint)
    if NoneType in inner:
        return None if value is None else _value(inner[0], value)
    if _is_of_pairs(hint):
        return tuple((name, _value(get_args(inner[0])[1], one)) for name, one in value.items())
    if inner:
        return tuple(_value(inner[0], one) for one in value)
    if is_dataclass(hint):
        return _record(hint, value)
    if hint is float and type(value) in (int, float) and 0 <= value <= MOST:  # which no NaN is
        return float(value)
    if type(value) is hint and (hint is not int or 0 <= value <= MOST):
        return value
    raise ValueError(f"{show_value(value)} is no {hint.__name__}")


def _record(kind: Any, stored: dict[str, Any]) -> Any:
    """Return a record of a class from the fields in a text. Raises: as `_value`."""
    kinds = hints_of(kind)
    names = {_NAMES.get(f.name, f.name): f.name for f in fields(kind)}
    return kind(**{names[key]: _value(kinds[names[key]], stored[key]) for key in stored if key != _DERIVED})
