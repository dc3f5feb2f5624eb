"""Choose the timings of instructions that a calibration runs, provide their data, and interpret the results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from isamap.emit.c_names import compute_type
from isamap.emit.conformance_source import EncodedForm, why_not
from isamap.emit.timing_source import (
    CHAIN_ISSUES,
    PLACES,
    Timing,
    copies_of,
    find_chain,
    highest,
    place_elements,
)
from isamap.ir import DType, Operand, Param
from isamap.ir.domains import drawn_values
from isamap.machine import Machine, MachineInstruction
from isamap.run.clocking import Timed
from isamap.run.conformance_cases import meets
from isamap.source.numbers import Spread
from isamap.source.records import dataclass
from isamap.tune.measured_parameters import InstructionFigure

_REGISTER_BYTES = 64
_MOST_TRIED = 4096
NO_CHAIN = "no result of it can go in again: it has no latency of its own"


@dataclass(frozen=True, slots=True)
class TimedInstruction:
    """An instruction with its parameters and timings. `said` is the reason if there are none."""

    entry: MachineInstruction
    form: EncodedForm | None
    timings: tuple[Timing, ...]
    said: str = ""


def ask(machine: Machine, entries: Sequence[MachineInstruction]) -> tuple[TimedInstruction, ...]:
    """Return the timings to run for each instruction, with the largest parameters, and for some the smallest.

    Its parameters are as large as they may be, and also as small where its stated cost depends on them.
    """
    found: list[TimedInstruction] = []
    number = 0
    for entry in entries:
        reason = why_not(machine, entry, model=False)
        encodings = _encodings(entry) if reason is None else []
        if not encodings:
            found.append(TimedInstruction(entry, None, (), reason or "no parameters fit"))
        for encoded in encodings:
            form = EncodedForm(number, entry, tuple(encoded.items()))
            timings = [Timing(number, form, "apart", max(PLACES, copies_of(form, machine)))]
            if find_chain(form, machine) is not None:
                timings.append(Timing(number + 1, form, "chain", CHAIN_ISSUES))
            number += len(timings)
            found.append(TimedInstruction(entry, form, tuple(timings)))
    return tuple(found)


def _encodings(entry: MachineInstruction) -> list[dict[str, int]]:
    """Return values for the encoded parameters, with the smallest first for those that schedules choose."""
    encoded = [p for p in entry.instruction.params if p.kind in ("choose", "imm", "machine")]
    ranges = [_range(p) for p in encoded]
    if any(not r for r in ranges):
        return []

    def first(values: list[list[int]]) -> dict[str, int] | None:
        for n, chosen in enumerate(product(*values)):
            binding = {p.name: v for p, v in zip(encoded, chosen, strict=True)}
            if meets(entry.instruction.where, binding):
                return binding
            if n > _MOST_TRIED:
                break
        return None

    most = first([r[::-1] for r in ranges])
    least = first(ranges) if any(p.kind == "choose" for p in encoded) else None
    return [b for n, b in enumerate((least, most)) if b is not None and (n == 1 or b != most)]


def _range(p: Param) -> list[int]:
    low = p.low.value if p.low is not None else None
    high = p.high.value if p.high is not None else None
    if low is None or high is None:
        return [p.default] if p.default is not None else [1 if low is None else low]
    return list(range(low, high + 1))


def time_operands(machine: Machine, timing: Timing, library: int, rng: np.random.Generator) -> Timed:
    """Return the timed call of a timing's function, with random operands."""
    form = timing.form
    given = dict(highest(form))
    data: list[bytes] = []
    for o in form.passed:
        is_register = machine.memories[o.memory or ""].kind == "registers"
        count = _elements(o, form) if is_register else PLACES * place_elements(o, form)
        size = (
            max(_REGISTER_BYTES, machine.memories[o.memory or ""].register_bytes or 0) if is_register else 0
        )
        count = max(count, -(-size // o.dtype.size_bytes))
        drawn = numbers(o.dtype, count, rng)
        if o.domain is not None:
            drawn = drawn_values((count,), o.domain, rng, given).astype(o.dtype.numpy())
        data.append(drawn.tobytes())
    for p in form.typed_scalars:
        assert p.dtype is not None
        data.append(_scalar(p.dtype, rng))
    counts = tuple(given[name] for name in form.counts)
    return Timed(library, timing.function, tuple(data), counts, timing.issues)


def _elements(o: Operand, form: EncodedForm) -> int:
    return prod(extent.evaluate(dict(highest(form))) for extent in o.shape)


def numbers(dtype: DType, count: int, rng: np.random.Generator) -> NDArray[np.generic]:
    """Return nonzero random numbers. Wide floats are near ±1, so that products of many stay normal."""
    if dtype.kind == "bool":
        return np.ones(count, np.bool_)
    if dtype.is_integer:
        drawn = rng.integers(max(dtype.low, -100), min(dtype.high, 100), count, endpoint=True)
        return np.where(drawn == 0, 1, drawn).astype(dtype.numpy())
    signs = rng.choice([-1.0, 1.0], count)
    spread = 2.0**-12 if dtype.bits > 16 else 1.0
    return (signs * (1 + spread * rng.random(count))).astype(dtype.numpy())


def _scalar(dtype: DType, rng: np.random.Generator) -> bytes:
    c_type = compute_type(dtype)
    stored = {"float": np.float32, "double": np.float64, "int": np.int32}.get(c_type)
    return numbers(dtype, 1, rng).astype(stored if stored is not None else dtype.numpy()).tobytes()


def figure(asked: TimedInstruction, results: Sequence[Spread | str]) -> InstructionFigure:
    """Return the measured times of an instruction from the results of its timings."""
    params = highest(asked.form) if asked.form is not None else ()
    by_kind = dict(zip((t.kind for t in asked.timings), results, strict=True))
    interval, latency = by_kind.get("apart"), by_kind.get("chain")
    failed = [r for r in results if isinstance(r, str)]
    said = asked.said or (failed[0] if failed else "" if "chain" in by_kind else NO_CHAIN)
    return InstructionFigure(
        asked.entry.name,
        params,
        interval if isinstance(interval, Spread) else None,
        latency if isinstance(latency, Spread) else None,
        said,
    )
