"""Hand-made scheduling problems: what the builder gives for well-known kernels on this kind of machine."""

from __future__ import annotations

from dataclasses import replace

from isamap.machine.timings import LoopTimes, RowTimes, Tlb
from isamap.plan.problem import (
    Cache,
    NestOption,
    NestProblem,
    Problem,
    Staging,
    TensorLayout,
    TileAxis,
    TileCosts,
    TileOperand,
    with_fields,
)
from isamap.plan.schedule import CountedLoop, LoopStep, NestSchedule, Schedule, Stage, UnrolledLoop

CACHES = (
    Cache("l1", 48 << 10, 400.0, line_bytes=64),
    Cache("l2", 1 << 20, 170.0, line_bytes=64, rows=RowTimes(start_ns=0.7)),
    Cache("l3", 32 << 20, 60.0, line_bytes=64, rows=RowTimes(start_ns=2.0, again_ns=12.0)),
)
MEMORY_BANDWIDTH = 20.0
MEMORY_ROWS = RowTimes(5.0, short_start_ns=20.0, short_bytes=128, followed_count=20, late_line_ns=1.5)
TLB = Tlb(64, 4096, 0.5)
LOOPS = LoopTimes(turn_ns=0.1, address_ns=0.07, unrolled_ns=0.03, unrolled_issue_ns=0.006, share_ns=120.0)


def problem(option: NestOption, *others: NestOption, registers: dict[str, int] | None = None) -> Problem:
    """Return a problem of one statement with these options."""
    sizes = tuple(sorted((axis.name.upper(), axis.extent) for axis in option.axes))
    files = tuple(sorted((registers or {"zmm": 32}).items()))
    nest = NestProblem(0, (option, *others))
    made = Problem("kernel", "machine", sizes, (nest,), files, CACHES, MEMORY_BANDWIDTH)
    return replace(made, memory_rows=MEMORY_ROWS, tlb=TLB, loops=LOOPS)


def tile_operand(
    name: str,
    tensor: str,
    axes: tuple[str, ...],
    memory: str,
    elements: int,
    direct_ns: float | None,
    staged_ns: float | None,
    *,
    element_bytes: int = 4,
    staging: Staging | None = None,
    is_accumulator: bool = False,
) -> TileOperand:
    """Return an operand in one register, of f32 unless `element_bytes` is given. Units: nanoseconds per issue."""
    layout, costs = TensorLayout(element_bytes), TileCosts(direct_ns, staged_ns)
    kept = staging or Staging(4, 0.1)
    return TileOperand(name, tensor, axes, is_accumulator, memory, 1, elements, layout, costs, kept)


def small_caches(first_bytes: int) -> tuple[Cache, Cache]:
    """Caches of which small problems use much; rows are lost by the second of them."""
    second = Cache("l2", 8192, 4.0, line_bytes=64, rows=RowTimes(start_ns=0.7))
    return Cache("l1", first_bytes, 8.0, line_bytes=64), second


def gemm_option(m: int, n: int, k: int, vector: int = 16, memory: str = "zmm") -> NestOption:
    """f32: C[m, n] += A[m, k] * B[k, n], a vector of n per issue, A broadcast."""
    axes = (TileAxis("m", m, 1, False), TileAxis("n", n, vector, False), TileAxis("k", k, 1, True))
    a = tile_operand("a", "A", ("m", "k"), memory, 1, 0.14, 0.14)
    b = tile_operand("b", "B", ("k", "n"), memory, vector, 0.14, 0.14)
    c = tile_operand("c", "C", ("m", "n"), memory, vector, 0.42, 0.42, is_accumulator=True)
    a = with_fields(a, dense_axis="k", pitch_bytes=4 * k)
    b = with_fields(b, dense_axis="n", pitch_bytes=4 * n)
    return NestOption(f"fma{vector} {{ i: n }} (a = A, b = B, c = C)", (), axes, (a, b, c), 0.14, 1.1)


def gemm(m: int, n: int, k: int) -> Problem:
    """f32 on vectors of 16, 32 registers."""
    return problem(gemm_option(m, n, k))


def opened(asked: Problem, name: str) -> Problem:
    """Return the same with an axis whose extent only the run knows."""

    def option(known: NestOption) -> NestOption:
        axes = tuple(replace(axis, is_open=axis.is_open or axis.name == name) for axis in known.axes)
        return replace(known, axes=axes)

    nests = tuple(replace(nest, options=tuple(map(option, nest.options))) for nest in asked.nests)
    return replace(asked, nests=nests)


def scalar_gemm(m: int, n: int, k: int) -> Problem:
    """f32, one element per issue, 16 registers."""
    return problem(gemm_option(m, n, k, 1, "reg"), registers={"reg": 16})


def tiled_gemm(m: int, n: int, k: int) -> Problem:
    """bf16 on tiles of 16 x 16 x 32, 8 registers; B has to be interleaved, C is narrower than its sums."""
    axes = (TileAxis("m", m, 16, False), TileAxis("n", n, 16, False), TileAxis("k", k, 32, True))
    a = tile_operand("a", "A", ("m", "k"), "tmm", 512, 2.4, 2.4, element_bytes=2, staging=Staging(2, 0.1))
    b = tile_operand("b", "B", ("k", "n"), "tmm", 512, None, 2.4, element_bytes=2, staging=Staging(2, 0.2))
    c = tile_operand(
        "c",
        "C",
        ("m", "n"),
        "tmm",
        256,
        60.0,
        6.9,
        element_bytes=2,
        staging=Staging(4, 0.2, stage_whole=True),
        is_accumulator=True,
    )
    option = NestOption("tdp (a = A, b = B, c = C)", (("N", 16), ("R", 16)), axes, (a, b, c), 4.9, 16.0)
    return problem(option, registers={"tmm": 8})


def conv2d(n: int, k: int, c: int, p: int, q: int, r: int, s: int) -> Problem:
    """f32, channels out on vectors, windows of stride 1; the weights have to be staged."""
    extents = {"n": n, "k": k, "p": p, "q": q, "c": c, "r": r, "s": s}
    axes = tuple(TileAxis(x, e, 16 if x == "k" else 1, x in "crs") for x, e in extents.items())
    windows = ((("n", 1),), (("c", 1),), (("p", 1), ("r", 1)), (("q", 1), ("s", 1)))
    x = tile_operand("a", "X", ("n", "c", "p", "q", "r", "s"), "zmm", 1, 0.14, 0.14)
    w = tile_operand("b", "W", ("k", "c", "r", "s"), "zmm", 16, None, 0.14)
    y = tile_operand("c", "Y", ("n", "k", "p", "q"), "zmm", 16, 5.0, 0.42, is_accumulator=True)
    operands = (with_fields(x, subscripts=windows), w, y)
    return problem(NestOption("fma { i: k }", (), axes, operands, 0.14, 1.1))


def elementwise(m: int, n: int) -> Problem:
    """f32: C[m, n] = A[m, n] * B[n]."""
    axes = (TileAxis("m", m, 1, False), TileAxis("n", n, 16, False))
    a = tile_operand("a", "A", ("m", "n"), "zmm", 16, 0.14, 0.14)
    b = tile_operand("b", "B", ("n",), "zmm", 16, 0.14, 0.14)
    c = tile_operand("c", "C", ("m", "n"), "zmm", 16, 0.28, None, is_accumulator=True)
    return problem(NestOption("mul { i: n }", (), axes, (a, b, c), 0.14, 0.0))


def gemv(m: int, k: int) -> Problem:
    """f32: y[m] += A[m, k] * x[k], a vector of m per issue, so that A has to be staged."""
    axes = (TileAxis("m", m, 16, False), TileAxis("k", k, 1, True))
    a = tile_operand("a", "A", ("m", "k"), "zmm", 16, None, 0.14)
    x = tile_operand("b", "x", ("k",), "zmm", 1, 0.14, 0.14)
    y = tile_operand("c", "y", ("m",), "zmm", 16, 0.42, 0.42, is_accumulator=True)
    return problem(NestOption("fma { i: m }", (), axes, (a, x, y), 0.14, 1.1))


PROBLEMS: dict[str, Problem] = {
    "gemm": gemm(1024, 1024, 1024),
    "gemm of primes": gemm(17, 127, 251),
    "gemm of one": gemm(1, 1, 1),
    "gemm of one row": gemm(1, 1024, 1024),
    "long gemm": gemm(500_000, 16, 64),
    "scalar gemm": scalar_gemm(127, 17, 251),
    "tiled gemm": tiled_gemm(1024, 1024, 1024),
    "tiled gemm of primes": tiled_gemm(17, 127, 251),
    "conv2d": conv2d(2, 64, 64, 14, 14, 3, 3),
    "conv2d of one channel": conv2d(1, 1, 1, 28, 28, 5, 5),
    "elementwise": elementwise(251, 1000),
    "gemv": gemv(1000, 500_000),
}


def loops(words: str) -> tuple[LoopStep, ...]:
    """`m:6 um:1` is `for m by 6 { unroll m by 1 {`."""
    found: list[LoopStep] = []
    for word in words.split():
        axis, _, step = word.partition(":")
        kind = UnrolledLoop if len(axis) > 1 else CountedLoop
        found.append(kind(axis[-1], int(step)))
    return tuple(found)


def answer(problem: Problem, words: str, stages: tuple[Stage, ...] = ()) -> Schedule:
    """Return a schedule of a problem's first option; `|` marks where `hold` stands."""
    outside, _, inside = words.partition("|")
    option = problem.nests[0].options[0]
    nest = NestSchedule(
        0, option.mapping, option.choose, loops(outside + inside), stages, len(outside.split())
    )
    return Schedule(problem.kernel, problem.machine, problem.sizes, (nest,))
