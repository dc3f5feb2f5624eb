"""A program run on random data: verified first, then timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from isamap.codegen.fills import make_arrays, make_scalars
from isamap.codegen.packed_arguments import packed_arrays
from isamap.codegen.runner import run_program
from isamap.driver.oracle import count_operations
from isamap.driver.runnable import Prepared
from isamap.driver.sizes import complete_sizes, whole_sizes
from isamap.driver.verifying import Case, compare, symbols_of
from isamap.ir import Range, bind
from isamap.syntax import parse_kernel

SECONDS = 0.5
MOST_REPEATS = 20_000
FIRST_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Timed:
    """A verified run with its times. Units: seconds; `operations` of one call, an addition being one."""

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
        """Operations per nanosecond by the median."""
        return self.operations / self.middle / 1e9


def profile_sizes(prepared: Prepared) -> dict[str, int]:
    """The sizes that are timed: those given, and the profile values of ranges."""
    sizes = complete_sizes(parse_kernel(prepared.request.kernel), whole_sizes(prepared.request.sizes))
    return {n: _profile(v) for n, v in sizes.items()}


def time_program(prepared: Prepared, sizes: Mapping[str, int]) -> Timed:
    """A run compared with the oracle, and about half a second of further runs. Raises: RunProblem."""
    kernel = bind(parse_kernel(prepared.request.kernel), dict(sizes))
    arrays, scalars = make_arrays(kernel, "random"), make_scalars(kernel)
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
    return Timed(case, seconds, count_operations(kernel), is_float, first.workspace_bytes)


def _profile(value: int | Range) -> int:
    if isinstance(value, int):
        return value
    return value.profile if value.profile is not None else value.high
