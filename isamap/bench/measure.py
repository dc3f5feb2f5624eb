"""One row measured: compiled, prepared by all contenders, verified, and timed in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from time import perf_counter

from isamap.bench.cases import Form, GemmCase, Row, kernel_text, shapes
from isamap.bench.ceilings import Bandwidths, Peaks, attainable_seconds, mapped_tile, padded_operations
from isamap.bench.contender import Contender
from isamap.bench.packed_libraries import packs_of
from isamap.bench.predictions import predicted_ns
from isamap.bench.product_check import check_product
from isamap.bench.ring import Shared, Task, fastest_bytes_per_ns, product_values, readings
from isamap.bench.turns import Ratio, play, ratio
from isamap.codegen.arguments import make_call
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import Prepared, prepare
from isamap.source import Source
from isamap.tune.profile import Profile

MOST_RING = 1024  # twice the caches of today in copies of the smallest products of the suite


@dataclass(frozen=True, slots=True)
class Rules:
    """How rows are measured. Units: `seconds` of a row's turns, `memory_bytes` that operands may take,
    `caches_bytes` of all caches.
    """

    machine: str
    threads: int
    beta: int
    cache: str
    seconds: float
    memory_bytes: int
    caches_bytes: int
    limit_s: float
    loops: str
    profile: Profile | None = None
    packed: bool = False


def measure_row(
    case: GemmCase,
    form: Form,
    rules: Rules,
    contenders: Sequence[Contender],
    peaks: Peaks,
    bandwidths: Bandwidths,
) -> Row:
    """The row, with a second run where it came out slower. Raises: IsamapError."""
    row = Row(
        case.position, case.suite, case.label, case.class_name, case.m, case.n, case.k, form.name,
        rules.beta, rules.threads, rules.cache, case.operations, packed=rules.packed,
    )  # fmt: skip
    needed = _operand_bytes(case, form)
    held = needed + (len(contenders) * _operand_bytes(case, form, "B") if rules.packed else 0)
    if 2 * held > rules.memory_bytes:
        said = f"{held / 1e9:.1f} GB of operands; {rules.memory_bytes / 1e9:.1f} GB may be used"
        return replace(row, left_out=said)
    started = perf_counter()
    prepared = _compiled(case, form, rules)
    row = replace(row, compile_seconds=perf_counter() - started, ring=ring_of(needed, held, rules))
    with Shared(product_values(shapes(case), form), "C", row.ring) as shared:
        task = _task(case, form, rules, shared, prepared)
        present = [c for c in contenders if c.prepare(task)]
        verified = {c.name: _verify(c, case, form, rules, shared) for c in present}
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
        readers = readings(rules.loops, shared.arrays["B"]) if beside else ()
        seconds = play([*timed, *readers], rules.seconds, shared)
        rate = fastest_bytes_per_ns(readers, seconds)
        seconds = {name: times for name, times in seconds.items() if name in verified}
        ratios = _ratios(seconds)
        row = replace(
            row,
            seconds=seconds,
            ratio={n: asdict(r) for n, r in ratios.items()},
            reading_bytes_per_ns=rate,
        )
        if any(r.is_slower for r in ratios.values()):
            again = _ratios(play(timed, rules.seconds, shared))
            row = replace(row, again={n: asdict(r) for n, r in again.items()})
    if row.reading_bytes_per_ns:
        bandwidths = Bandwidths(((0, row.reading_bytes_per_ns),))
    roof = _roof(prepared, case, form, rules, needed, row.ring, peaks, bandwidths)
    return replace(row, attainable_seconds=roof, predicted_ns=predicted_ns(prepared))


def _operand_bytes(case: GemmCase, form: Form, names: str = "ABC") -> int:
    found = {name: size for name, size in shapes(case).items() if name in names}
    return sum(rows * columns * form.element_bytes(name) for name, (rows, columns) in found.items())


def ring_of(needed: int, held: int, rules: Rules) -> int:
    """Copies of all operands that together exceed twice the caches, where memory allows; else one.

    Units: bytes; `held` are those of a copy with what contenders pack of it.
    """
    if rules.cache == "warm" or needed > 2 * rules.caches_bytes:
        return 1
    return max(1, min(ceil(2 * rules.caches_bytes / needed) + 1, MOST_RING, rules.memory_bytes // held))


def _compiled(case: GemmCase, form: Form, rules: Rules) -> Prepared:
    source = Source("deepbench_gemm.ir", kernel_text(form, case, rules.beta))
    sizes = {"M": case.n, "N": case.m, "K": case.k}
    request = Request(
        source, rules.machine, sizes, limit_s=rules.limit_s, transform=BEST_FORM, threads=rules.threads,
        profile=rules.profile, packed=("B",) if rules.packed else (), cold=rules.cache == "rotate",
    )  # fmt: skip
    return prepare(request)


def _task(case: GemmCase, form: Form, rules: Rules, shared: Shared, prepared: Prepared) -> Task:
    program = program_of(prepared, shared, rules.threads)
    return Task(
        form.name, case.n, case.m, case.k, case.b_transposed, case.a_transposed, rules.beta, shared.ring,
        shared.places, rules.loops, program, rules.packed,
    )  # fmt: skip


def program_of(prepared: Prepared, shared: Shared, threads: int) -> dict[str, object]:
    """How the emitted library is called on shared operands, as plain data."""
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


def _verify(contender: Contender, case: GemmCase, form: Form, rules: Rules, shared: Shared) -> bool:
    """One call on the first copy, compared with the product."""
    shared.refill()
    contender.time(1)
    a, b = shared.arrays["A"][0], shared.arrays["B"][0]
    a, b = (a.T if case.b_transposed else a), (b.T if case.a_transposed else b)
    before = shared.first if rules.beta else None
    return check_product(form, a, b, before, shared.arrays["C"][0]).ok


def _ratios(seconds: Mapping[str, Sequence[float]]) -> dict[str, Ratio]:
    return {name: ratio(seconds["isamap"], times) for name, times in seconds.items() if name != "isamap"}


def _roof(
    prepared: Prepared,
    case: GemmCase,
    form: Form,
    rules: Rules,
    needed: int,
    ring: int,
    peaks: Peaks,
    bandwidths: Bandwidths,
) -> float:
    made = prepared.program.compilation
    tile = mapped_tile(made)
    c_bytes = case.n * case.m * form.element_bytes("C")
    traffic = needed + (c_bytes if rules.beta else 0)
    return attainable_seconds(
        padded_operations(tile), peaks.of(tile, made), traffic, needed * ring, bandwidths, rules.threads
    )
