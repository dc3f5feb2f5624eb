"""Verify a program: compare its results with the oracle on several fills with guard pages, and time it.

A recurrence whose results include its state is compared twice: as a whole, if its bounds are tight enough,
and each iteration alone, from the program's own state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.driver.deviation import Deviation, Vague, find_deviation, find_vague, must_overflow
from isamap.driver.oracle import ORDER_FACTOR, Expected, count_operations, expect, expect_rounded, sum_type
from isamap.driver.request import complete_sizes, whole_sizes
from isamap.driver.runnable import PreparedKernel, RanOn
from isamap.ir import Assign, Call, Cast, Expr, Kernel, Loop, Read, iterations_apart
from isamap.ir.bind import Range, allows_sizes, bind, typical_size
from isamap.run.child import RunProblem
from isamap.run.fills import fills_of, make_arrays, make_scalars, taken_bytes, with_gaps
from isamap.run.runner import RunResult, packed_arrays, run_program
from isamap.source import Diagnostic, UsageProblem, dataclass, field, replace
from isamap.syntax import parse_kernel

# --- randomised -----------------------------------------------------------------------------------------

# A randomised check of a whole matrix product, too large for an oracle (Freivalds, 1977).
#
# C = C0 + A·B is held against C·x = C0·x + A·(B·x) for random signs x: a wrong element goes unnoticed with
# probability one half per vector.


VECTORS = 16


@dataclass(frozen=True, slots=True)
class Contraction:
    """`target += left * right` with one axis per subscript. `axis` occurs only in the right factor."""

    target: Read
    left: Read
    right: Read
    axis: str


def contraction_of(kernel: Kernel) -> Contraction | None:
    """Return the kernel as one product of two arrays, or None for other kernels."""
    if len(kernel.body) != 1 or not isinstance(loop := kernel.body[0], Loop) or len(loop.body) != 1:
        return None
    match loop.body[0]:
        case Assign(target, "add", value, None):
            factors = _factors(value)
        case _:
            return None
    if factors is None or not all(_is_plain(r) for r in (target, *factors)):
        return None
    left, right = factors
    for first, second in ((left, right), (right, left)):
        own = [a for a in _axes(second) if a in _axes(target) and a not in _axes(first)]
        if own:
            return Contraction(target, first, second, own[-1])
    return None


def wrong_vectors(
    c: Contraction, arrays: Mapping[str, Array], result: Array, unit: float
) -> tuple[int, float, float]:
    """Return the number of result vectors beyond their bound, the largest error, and its bound.

    Units: `unit` is the allowed relative error of one element, 0 for exact integers.
    """
    axes = sorted({*_axes(c.target), *_axes(c.left), *_axes(c.right)})
    letters = {axis: chr(ord("a") + i) for i, axis in enumerate(axes)}
    left, right = (arrays[r.buffer].astype(np.float64) for r in (c.left, c.right))
    old, found = arrays[c.target.buffer].astype(np.float64), result.astype(np.float64)
    extent = right.shape[_axes(c.right).index(c.axis)]
    signs = np.random.default_rng(7).choice([-1.0, 1.0], size=(VECTORS, extent))

    def spelled(axes: list[str], *, without: bool = False) -> str:
        return "".join(letters[a] for a in axes if not (without and a == c.axis))

    out, one, two = (_axes(r) for r in (c.target, c.left, c.right))
    x = f"z{letters[c.axis]}"
    summed = f"{spelled(out)},{x}->z{spelled(out, without=True)}"
    inner = f"{spelled(two)},{x}->z{spelled(two, without=True)}"
    outer = f"{spelled(one)},z{spelled(two, without=True)}->z{spelled(out, without=True)}"

    def both(a: Array, b: Array, start: Array, vectors: Array) -> Array:
        projected = np.einsum(inner, b, vectors, optimize=True)
        total = np.einsum(outer, a, projected, optimize=True)
        return total + np.einsum(summed, start, vectors, optimize=True)

    errors = np.abs(np.einsum(summed, found, signs, optimize=True) - both(left, right, old, signs))
    size = both(np.abs(left), np.abs(right), np.abs(old), np.abs(signs[:1]))
    bound = (unit + 2.0**-48) * size
    bad = np.any((errors > bound).reshape(VECTORS, -1), axis=1)
    return int(bad.sum()), float(errors.max()), float(bound.max())


def _factors(e: Expr) -> tuple[Read, Read] | None:
    def bare(e: Expr) -> Expr:
        return bare(e.value) if isinstance(e, Cast) else e

    match bare(e):
        case Call("mul", (a, b)):
            pair = bare(a), bare(b)
            if isinstance(pair[0], Read) and isinstance(pair[1], Read):
                return pair[0], pair[1]
        case _:
            pass
    return None


def _is_plain(read: Read) -> bool:
    names = [str(i) for i in read.index]
    return (
        read.fill is None
        and all(i.symbols == frozenset((n,)) for i, n in zip(read.index, names, strict=True))
        and len({*names}) == len(names)
    )


def _axes(read: Read) -> list[str]:
    return [str(i) for i in read.index]


# --- verifying ------------------------------------------------------------------------------------------


Array = NDArray[Any]


GUARDED_BYTES = 1 << 30
"""The largest data next to guard pages: this placement needs a second copy."""
FILLS_APART = ("random",)
"""Data whose rows lie apart."""
GAP_BYTES = 64
GAPPED_BYTES = 1 << 28

MOST_MOVED = 4096
"""The largest change of a size that breaks `where`."""
"""Larger data with gaps lies dense instead: rows of one byte take 65 times as much with them."""


@dataclass(frozen=True, slots=True)
class Case:
    """One compared run. `max_error` and `bound` belong to the element nearest to its bound.

    `at` is the vector length, if the program supports several. `vague` has a finding for each output for
    which this run decides nothing.
    """

    sizes: Mapping[str, int]
    fill: str
    max_error: float
    bound: float
    ran_on: RanOn
    checked: str
    guarded: bool
    problems: tuple[Diagnostic, ...] = ()
    at: str = ""
    vague: Mapping[str, Diagnostic] = field(default_factory=dict[str, Diagnostic])

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(slots=True)
class ComparedResult:
    """A result under comparison: how near its elements are to their bounds, and the errors found."""

    kernel: Kernel
    arrays: Mapping[str, Array]
    found: Mapping[str, Array]
    sizes: Mapping[str, int]
    fill: str
    ran_on: RanOn
    problems: list[Diagnostic]
    checked: str = "all elements"
    worst: float = -1.0
    error: float = 0.0
    bound: float = 0.0
    vague: dict[str, Diagnostic] = field(default_factory=dict[str, Diagnostic])
    rounded: Kernel | None = None
    """The kernel that was compiled in the other's place, if its errors are larger."""

    def compare(self, name: str, expected: Expected) -> None:
        """Compare an output with its expected values, and record the outcome."""
        found = self.found[name]
        closest = find_deviation(found, expected)
        if closest.ratio > self.worst:
            self.worst, self.error, self.bound = closest.ratio, closest.error, closest.bound
        if closest.ratio > 1:
            self.problems.append(_error(name, expected, closest, self))
        free = int(np.count_nonzero(np.isinf(expected.bound)))
        if free and expected.at is None:
            self.checked = f"{expected.values.size - free} of {expected.values.size} elements of {name}"
        if expected.at is not None:
            self.checked = f"{len(expected.values)} sampled elements"
            self.checked += _check_product(self.kernel, self.arrays, found, name, self.problems)


def concrete_sizes(prepared: PreparedKernel) -> tuple[dict[str, int], ...]:
    """Return the sizes to run with: given ones, and the lowest, profile and highest values of ranges.

    A program with several schedules has these values of the sizes of each. Values that break the kernel's
    `where` are replaced by the nearest that do not.
    """
    parsed, made = parse_kernel(prepared.request.kernel), prepared.program.compilation.versions
    choices: list[dict[str, int]] = []
    for given in [dict(v.schedule.sizes) for v in made if v.schedule] or [prepared.request.sizes]:
        sizes = complete_sizes(parsed, given)
        for pick in ("low", "typical", "high"):
            chosen: dict[str, int] = {
                n: v if isinstance(v, int) else getattr(v, pick) for n, v in sizes.items()
            }
            chosen = _nearest_allowed(parsed, chosen, sizes)
            if chosen not in choices:
                choices.append(chosen)
    return tuple(choices)


def _nearest_allowed(
    kernel: Kernel, chosen: dict[str, int], sizes: Mapping[str, int | Range]
) -> dict[str, int]:
    """Return the sizes, with a range's size changed as little as `where` requires."""
    ranges = [(name, size) for name, size in sizes.items() if isinstance(size, Range)]
    for distance in range(MOST_MOVED):
        for name, size in ranges:
            for moved in (chosen[name] + distance, chosen[name] - distance):
                if size.low <= moved <= size.high and allows_sizes(kernel, {**chosen, name: moved}):
                    return {**chosen, name: moved}
    return chosen


def verify_case(prepared: PreparedKernel, sizes: Mapping[str, int], fill: str, *, guard: bool = True) -> Case:
    """Return the comparison for one set of sizes and one fill.

    Of `FILLS_APART` rows lie apart in memory: programs have a version of their own for rows that do not.
    """
    kernel = bind(parse_kernel(prepared.request.kernel), dict(sizes))
    arrays, scalars = make_arrays(kernel, fill), make_scalars(kernel, fill)
    if fill in FILLS_APART:
        arrays = rows_apart(arrays, kernel, prepared)
    guard = guard and sum(taken_bytes(a) for a in arrays.values()) <= GUARDED_BYTES
    symbols, threads = symbols_of(prepared, sizes), prepared.request.threads
    try:
        given = packed_arrays(
            prepared.packers, arrays, symbols, guard=guard, threads=threads, emulator=prepared.emulator
        )
        result = run_program(
            prepared.compiled,
            given,
            symbols,
            scalars=scalars,
            guard=guard,
            threads=threads,
            emulator=prepared.emulator,
        )
    except RunProblem as problem:
        return Case(sizes, fill, 0.0, 0.0, prepared.ran_on, "nothing", guard, problem.diagnostics)
    return compare(kernel, arrays, scalars, result, prepared, sizes, fill, guard)


def rows_apart(arrays: Mapping[str, Array], kernel: Kernel, prepared: PreparedKernel) -> dict[str, Array]:
    """Return the arrays with gaps between their rows.

    Arrays stay dense if the program or the kernel's `where` fixes their strides, if their dimensions were
    merged, and if they would grow much.
    """
    programs = (prepared.compiled, *(packer.compiled for packer in prepared.packers))
    tensors = [t for program in programs for t in program.interface.tensors]
    dense = {
        t.name for t in tensors for stride in t.strides[:-1] if not any("." in s for s in stride.symbols)
    }
    dense |= {t.name for t in tensors if t.given is not None}
    promised = {symbol for c in kernel.where for side in (c.left, c.right) for symbol in side.symbols}
    dense |= {name for name in arrays for symbol in promised if symbol.startswith(f"stride({name},")}
    return {n: a if n in dense else with_gaps(a, GAP_BYTES, GAPPED_BYTES) for n, a in arrays.items()}


def symbols_of(prepared: PreparedKernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that the program receives in a call."""
    return {name: sizes[name] for name, _, _ in prepared.compiled.interface.symbols}


def compare(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float],
    result: RunResult,
    prepared: PreparedKernel,
    sizes: Mapping[str, int],
    fill: str,
    guard: bool,
) -> Case:
    """Return the comparison of a result with the oracle."""
    if result.status != 0:
        said = f"the program refused its arguments: {result.meaning}"
        refused = (Diagnostic("program-refused", said),)
        return Case(sizes, fill, 0.0, 0.0, prepared.ran_on, "nothing", guard, refused)
    problems = [
        Diagnostic("result-wrong", f"`{n}` is written between its rows") for n in result.written_between
    ]
    judged = ComparedResult(kernel, arrays, result.arrays, sizes, fill, prepared.ran_on, problems)
    rewrite = prepared.program.compilation.rewrite if prepared.request.transform else None
    judged.rounded = rewrite.rounded if rewrite else None
    return case_of(judged, scalars, guard=guard)


def case_of(judged: ComparedResult, scalars: Mapping[str, float], *, guard: bool) -> Case:
    """Return the comparison of all outputs of a run with the oracle."""
    for name, expected in comparisons(judged, scalars):
        judged.compare(name, expected)
    return Case(
        judged.sizes,
        judged.fill,
        judged.error,
        judged.bound,
        judged.ran_on,
        judged.checked,
        guard,
        tuple(judged.problems),
        vague=judged.vague,
    )


def comparisons(judged: ComparedResult, scalars: Mapping[str, float]) -> Iterator[tuple[str, Expected]]:
    """Yield the comparisons: whole outputs and, for a recurrence, iterations from the program's own state.

    If the bounds of the whole are too wide, the iterations alone decide, which is just as strong.
    """
    kernel, arrays, fill = judged.kernel, judged.arrays, judged.fill
    whole = (
        expect(kernel, arrays, scalars, fill)
        if judged.rounded is None
        else expect_rounded(kernel, judged.rounded, arrays, scalars, fill)
    )
    apart = iterations_apart(kernel)
    own: dict[str, Expected] = {}
    if apart is not None:
        given = {**arrays, **{name: judged.found[output] for name, output in apart.shown.items()}}
        own = expect(apart.kernel, given, scalars, fill)
        judged.checked = "all elements, each iteration from the program's own state"
    for name, expected in whole.items():
        several = [e for e in (expected, own.get(name)) if e is not None]
        vague = [find_vague(judged.found[name], e, arrays) for e in several]
        if (found := vague[-1]) is not None and all(vague):
            judged.vague[name] = _too_vague(name, found, judged)
            judged.checked = f"none of {name}: no value is finite, or its bound exceeds a tenth of them"
        telling = [e for e, says_nothing in zip(several, vague, strict=True) if says_nothing is None]
        yield from ((name, e) for e in telling or several)


def _too_vague(name: str, vague: Vague, judged: ComparedResult) -> Diagnostic:
    """Return the error that an output's bound is too large to detect a wrong result."""
    large = (
        f"its bound, {vague.bound:.3g}, is larger than a tenth of its values, which reach {vague.size:.3g}"
    )
    said = "none of its values is finite" if np.isinf(vague.size) else large
    return Diagnostic(
        "bound-too-large",
        f"`{name}` is not verified: {said}, on every fill",
        notes=(_describe_run(judged),),
        help="verify smaller sizes or fewer iterations, or write the state of each iteration to an "
        "output, so that each iteration is compared separately",
    )


def _error(name: str, expected: Expected, closest: Deviation, judged: ComparedResult) -> Diagnostic:
    found = judged.found[name]
    if expected.at is not None:
        index = tuple(int(a[closest.position]) for a in expected.at)
    else:
        index = tuple(int(i) for i in np.unravel_index(closest.position, found.shape))
    is_value = expected.values.ravel()[closest.position]
    allowed = f"within {closest.bound:.3g}" if closest.bound else "bit-exact"
    if must_overflow(expected).ravel()[closest.position]:
        allowed = f"which overflows {expected.dtype}"
    where = f"{name}[{', '.join(map(str, index))}]" if index else name
    return Diagnostic(
        "result-wrong",
        f"{where} is {found[index]!s} and should be {is_value!s}, {allowed}",
        notes=(
            f"{closest.wrong} of {expected.values.size} elements compared are wrong",
            _describe_run(judged),
        ),
        help="`isamap hw check --run` tells whether an instruction's description is wrong",
    )


def _describe_run(judged: ComparedResult) -> str:
    sizes = ", ".join(f"{n}={v}" for n, v in judged.sizes.items())
    return f"with {sizes}, filled with {judged.fill}, run on {judged.ran_on}"


def _check_product(
    kernel: Kernel, arrays: Mapping[str, Array], found: Array, name: str, problems: list[Diagnostic]
) -> str:
    """Check a sampled product with all of its elements. Return text about the check, or "" for other kernels."""
    contraction = contraction_of(kernel)
    dtype = kernel.operand(name).dtype
    if contraction is None or contraction.target.buffer != name:
        return ""
    unit = 0.0
    if dtype.is_float:
        unit = ORDER_FACTOR * 2.0 ** (1 - sum_type(kernel).mantissa_bits) + 2.0 ** (1 - dtype.mantissa_bits)
    wrong, error, bound = wrong_vectors(contraction, arrays, found, unit)
    if wrong:
        said = f"`{name}` times a random vector is off by {error:.3g}, allowed are {bound:.3g}"
        problems.append(Diagnostic("result-wrong", said, notes=(f"for {wrong} of {VECTORS} vectors",)))
    return f" and the product with {VECTORS} random vectors"


def all_cases(prepared: PreparedKernel, fills: tuple[str, ...], *, guard: bool) -> Iterator[Case]:
    """Yield the comparisons of one program for all sizes, all fills, and each vector length that it serves.

    Without fills they are those that the kernel's operations ask for.
    """
    for at, there in prepared.everywhere():
        for sizes in concrete_sizes(there):
            kernel = bind(parse_kernel(prepared.request.kernel), dict(sizes))
            cases = [verify_case(there, sizes, fill, guard=guard) for fill in fills or fills_of(kernel)]
            yield from (replace(case, at=at) for case in with_unverified(cases))


def with_unverified(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield the comparisons of one run. The last one reports each output that no comparison could judge."""
    told = [case.vague for case in cases]
    for number, case in enumerate(cases, 1):
        last = number == len(cases)
        never = [d for name, d in told[-1].items() if all(name in own for own in told)] if last else []
        yield replace(case, problems=(*case.problems, *never)) if never else case


SECONDS = 0.5
MOST_REPEATS = 20_000
FIRST_REPEATS = 3
# The median over the best run where a computer counts as busy. On a quiet one it is 1.02 to 1.2.
BUSY = 1.5


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A verified run with its times. Units: seconds. `operations` of one call, where an addition is one."""

    case: Case
    seconds: tuple[float, ...]
    operations: int
    is_float: bool
    workspace_bytes: int

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def middle(self) -> float:
        return median(self.seconds)

    @property
    def gflops(self) -> float:
        """The operations per nanosecond, by the median time."""
        return self.operations / self.middle / 1e9

    @property
    def is_busy(self) -> bool:
        """Return whether times vary so much that other work must have disturbed them."""
        return self.middle > BUSY * self.best


def profile_sizes(prepared: PreparedKernel) -> dict[str, int]:
    """Return the sizes to time: given ones, and the profile values of ranges."""
    sizes = complete_sizes(parse_kernel(prepared.request.kernel), whole_sizes(prepared.request.sizes))
    return {n: typical_size(v) for n, v in sizes.items()}


def time_program(prepared: PreparedKernel, sizes: Mapping[str, int]) -> TimedRun:
    """Compare a run with the oracle, and time about half a second of further runs.

    Raises: RunProblem; UsageProblem if it runs under an emulator, whose time says nothing.
    """
    if prepared.emulator is not None:
        said = f"programs for `{prepared.machine.name}` run under `{prepared.emulator}`, which times nothing"
        raise UsageProblem.of("usage", said, help="use `isamap verify`")
    kernel = bind(parse_kernel(prepared.request.kernel), dict(sizes))
    arrays, scalars = make_arrays(kernel, "random"), make_scalars(kernel, "random")
    symbols, threads = symbols_of(prepared, sizes), prepared.request.threads
    given = packed_arrays(prepared.packers, arrays, symbols, threads=threads)
    first = run_program(
        prepared.compiled, given, symbols, scalars=scalars, repeat=FIRST_REPEATS, threads=threads
    )
    case = compare(kernel, arrays, scalars, first, prepared, sizes, "random", False)
    seconds = first.seconds
    if case.ok:
        repeat = int(min(MOST_REPEATS, SECONDS / max(min(first.seconds), 1e-9)))
        if repeat > FIRST_REPEATS:
            again = run_program(
                prepared.compiled, given, symbols, scalars=scalars, repeat=repeat, threads=threads
            )
            seconds = again.seconds
    outputs = [o for o in kernel.operands if o.role in ("out", "inout")]
    is_float = any(o.dtype.is_float for o in outputs)
    return TimedRun(case, seconds, count_operations(kernel), is_float, first.workspace_bytes)
