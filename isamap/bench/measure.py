"""Measure one row: compile it, prepare all contenders, verify their results, and time them in alternation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from time import perf_counter

from isamap.bench.cases import Form
from isamap.bench.ceilings import Bandwidths, Peaks, attainable, mapped_tile, padded_operations
from isamap.bench.contender import Contender
from isamap.bench.kind import C, Kind, Rules, Work
from isamap.bench.packed_libraries import packs_of
from isamap.bench.paired_timing import Ratio, play, ratio
from isamap.bench.predictions import predicted_ns
from isamap.bench.ring import Shared, Task, fastest_bytes_per_ns, readings
from isamap.bench.stored_rows import Row
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import Prepared, prepare
from isamap.run.arguments import make_call
from isamap.source.records import asdict, dataclass, replace

MOST_RING = 1024  # twice the caches of today in copies of the smallest products of the suite


@dataclass(frozen=True, slots=True)
class Bench:
    """Contenders, and the measured upper limits."""

    contenders: Sequence[Contender]
    bandwidths: Bandwidths
    peaks: Peaks


def empty_row(kind: Kind[C], case: C, form: Form, rules: Rules, left_out: str = "") -> Row:
    """Return the row of a case before it is measured."""
    return Row(
        case.position, case.suite, kind.name, case.label, case.class_name, case.sizes, form.name,
        case.operations, rules.beta, rules.threads, rules.cache, rules.packed, left_out=left_out,
    )  # fmt: skip


def measure_row(kind: Kind[C], case: C, form: Form, rules: Rules, bench: Bench) -> Row:
    """Return the row, with a second run where it came out slower. Raises: IsamapError."""
    row, work = empty_row(kind, case, form, rules), kind.work(case, form, rules.beta)
    held = work.held + (len(bench.contenders) * work.weights if rules.packed else 0)
    if 2 * held > rules.memory_bytes:
        said = f"{held / 1e9:.1f} GB of operands; {rules.memory_bytes / 1e9:.1f} GB may be used"
        return replace(row, left_out=said)
    started = perf_counter()
    prepared = _compiled(kind, case, form, rules)
    row = replace(row, compile_seconds=perf_counter() - started, ring=ring_of(work.held, held, rules))
    with Shared(kind.values(case, form), kind.written, row.ring) as shared:
        row = _timed(row, kind, case, form, rules, bench.contenders, shared, prepared)
    if not row.seconds:
        return row
    bandwidths = bench.bandwidths
    if row.reading_bytes_per_ns:
        bandwidths = Bandwidths(((0, row.reading_bytes_per_ns),))
    roofs = _roofs(prepared, work, row, bench.peaks, bandwidths)
    bound_by = max(roofs, key=lambda name: roofs[name])
    return replace(
        row, attainable_seconds=roofs[bound_by], bound_by=bound_by, predicted_ns=predicted_ns(prepared)
    )


def _timed(
    row: Row,
    kind: Kind[C],
    case: C,
    form: Form,
    rules: Rules,
    contenders: Sequence[Contender],
    shared: Shared,
    prepared: Prepared,
) -> Row:
    """Return the row with times and ratios of those whose results are right."""
    program = program_of(prepared, shared, rules.threads)
    task = Task(
        kind.name, case, form.name, shared.places, rules.loops, program, rules.beta, shared.ring, rules.packed
    )
    present = [c for c in contenders if c.prepare(task)]
    verified = {c.name: kind.is_right(c, case, form, rules.beta, shared) for c in present}
    timed = [c for c in present if verified[c.name]]
    row = replace(
        row,
        verified=verified,
        implementation={c.name: c.implementation for c in present},
        in_c={c.name: c.in_c for c in present},
        dispatch_ns={c.name: c.dispatch_ns for c in present if not c.in_c},
    )
    if not verified.get("isamap"):
        return replace(row, left_out="isamap's result is wrong")
    beside = rules.cache == "rotate" and rules.threads == 1 and not rules.packed
    readers = readings(rules.loops, shared.arrays[kind.weights[0]]) if beside else ()
    seconds = play([*timed, *readers], rules.seconds, shared)
    rate = fastest_bytes_per_ns(readers, seconds)
    seconds = {name: times for name, times in seconds.items() if name in verified}
    ratios = _ratios(seconds)
    again: Mapping[str, Ratio] = {}
    if any(r.is_slower for r in ratios.values()):
        again = _ratios(play(timed, rules.seconds, shared))
    return replace(
        row,
        seconds=seconds,
        ratio={n: asdict(r) for n, r in ratios.items()},
        again={n: asdict(r) for n, r in again.items()},
        reading_bytes_per_ns=rate,
    )


def ring_of(needed: int, held: int, rules: Rules) -> int:
    """Return the number of operand copies that together exceed twice the caches, where memory allows; else one.

    Units: bytes; `held` are those of a copy with what contenders pack of it.
    """
    if rules.cache == "warm" or needed > 2 * rules.caches_bytes:
        return 1
    return max(1, min(ceil(2 * rules.caches_bytes / needed) + 1, MOST_RING, rules.memory_bytes // held))


def _compiled(kind: Kind[C], case: C, form: Form, rules: Rules) -> Prepared:
    request = Request(
        kind.source(case, form, rules.beta), rules.machine, case.bindings, limit_s=rules.limit_s,
        transform=BEST_FORM, threads=rules.threads, profile=rules.profile,
        packed=kind.weights if rules.packed else (), cold=rules.cache == "rotate",
    )  # fmt: skip
    return prepare(request)


def program_of(prepared: Prepared, shared: Shared, threads: int) -> dict[str, object]:
    """Return how the emitted library is called on shared operands, as plain data."""
    interface = prepared.compiled.interface
    arrays = {name: copies[0] for name, copies in shared.arrays.items()}
    packs, packed = packs_of(prepared.packers, arrays)
    call = make_call(interface, arrays | packed, {}, {}, in_place=True)
    nests = prepared.program.compilation.schedule
    assert nests is not None
    return {
        "library": str(prepared.compiled.library),
        "function": interface.name,
        "fields": call.fields,
        "tensors": [t.name for t in call.tensors],
        "permissions": prepared.compiled.permissions,
        "pool": str(prepared.compiled.pool) if prepared.compiled.pool and threads > 1 else None,
        "implementation": "; ".join(nest.mapping for nest in nests.nests),
        "packs": packs,
    }


def _ratios(seconds: Mapping[str, Sequence[float]]) -> dict[str, Ratio]:
    return {name: ratio(seconds["isamap"], times) for name, times in seconds.items() if name != "isamap"}


def _roofs(
    prepared: Prepared, work: Work, row: Row, peaks: Peaks, bandwidths: Bandwidths
) -> dict[str, float]:
    """Return the least times that arithmetic and reading allow. Units: seconds."""
    made = prepared.program.compilation
    tile = mapped_tile(made)
    operations = padded_operations(tile) if work.operations is None else work.operations
    return attainable(
        operations, peaks.of(tile, made), work.read, work.live * row.ring, bandwidths, row.threads
    )
