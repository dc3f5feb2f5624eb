"""A kernel on a machine, verified at a few sizes: one cell of the matrix that `isamap verify --all` prints.

gemm_f32 on aarch64-neon   ->   verified by fma_n_q_f32, 89 % of its lanes, 6 comparisons on emulator

A kernel that the machine cannot perform, or that cannot run here, is not a failure: its cell gives the reason.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from isamap.driver.predicted import InstructionUse, uses_of
from isamap.driver.request import Request, Size
from isamap.driver.runnable import prepare
from isamap.driver.verifying import Case, all_cases
from isamap.ir import bind
from isamap.run.child import Emulator
from isamap.source import Infeasible, IsamapError, MissingTool, NoMapping, Source, UsageProblem
from isamap.source.records import asdict, dataclass, fields
from isamap.syntax import parse_kernel

Verdict = Literal["verified", "failed", "no-mapping", "no-schedule", "not-run"]
Sizes = Mapping[str, Size]


@dataclass(frozen=True, slots=True)
class CellRequest:
    """A cell to be filled. `key` names it among the cells of an earlier run."""

    key: str
    kernel: str
    machine: str
    requests: tuple[Request, ...]
    fills: tuple[str, ...]
    guard: bool = True
    emulator: Emulator | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of one kernel on one machine. `reason` says why nothing was verified, or has the error.

    `scalar` are those of `instructions` that perform one iteration at a time. `utilisation` is the share of
    busy lanes of the instruction with the most work. Units: seconds.
    """

    key: str
    kernel: str
    machine: str
    verdict: Verdict
    instructions: tuple[str, ...] = ()
    scalar: tuple[str, ...] = ()
    utilisation: float | None = None
    ran_on: tuple[str, ...] = ()
    comparisons: int = 0
    reason: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the cell as JSON."""
        return asdict(self)

    @property
    def is_settled(self) -> bool:
        """Return whether another run would have the same verdict."""
        return self.verdict in ("verified", "no-mapping", "no-schedule")

    @staticmethod
    def of(kept: Mapping[str, Any]) -> Cell:
        """Return the cell that a line of JSON describes."""
        lists = {name: tuple(kept[name]) for name in ("instructions", "scalar", "ran_on")}
        whole: dict[str, Any] = {**{f.name: kept[f.name] for f in fields(Cell)}, **lists}
        return Cell(**whole)


def verify_cell(cell_request: CellRequest) -> Cell:
    """Return the cell. An internal error of the compiler fails only this cell."""
    started = time.monotonic()
    uses: list[InstructionUse] = []
    cases: list[Case] = []
    verdict, reason = _verify_cell(cell_request, uses, cases)
    busiest = max(uses, key=lambda use: use.iterations, default=None)
    return Cell(
        cell_request.key, cell_request.kernel, cell_request.machine, verdict,
        tuple(dict.fromkeys(use.instruction for use in uses)),
        tuple(dict.fromkeys(use.instruction for use in uses if use.lanes == 1)),
        busiest.utilisation if busiest is not None else None,
        tuple(sorted({case.ran_on for case in cases})), len(cases), reason,
        round(time.monotonic() - started, 3),
    )  # fmt: skip


def _verify_cell(
    cell_request: CellRequest, uses: list[InstructionUse], cases: list[Case]
) -> tuple[Verdict, str]:
    """Return the verdict and its reason. `uses` and `cases` are filled as far as verification proceeds."""
    try:
        for request in cell_request.requests:
            prepared = prepare(request, emulator=cell_request.emulator)
            uses += uses_of(prepared.program.compilation)
            cases += all_cases(prepared, cell_request.fills, guard=cell_request.guard)
    except NoMapping as error:
        return "no-mapping", _describe_error(error)
    except Infeasible as error:
        return "no-schedule", _describe_error(error)
    except MissingTool as error:
        return "not-run", _describe_error(error)
    except IsamapError as error:
        return "failed", _describe_error(error)
    except Exception as error:  # noqa: BLE001 - the other cells are not to be lost with this one
        return "failed", f"internal-error: {type(error).__name__}: {error}"[:300]
    wrong = [case for case in cases if not case.ok]
    if not wrong:
        return "verified", ""
    sizes = " ".join(f"{name}={value}" for name, value in wrong[0].sizes.items())
    found = wrong[0].problems[0]
    return "failed", f"{found.code}: {found.message} ({sizes}, {wrong[0].fill}; {len(wrong)} of {len(cases)})"


def _describe_error(error: IsamapError) -> str:
    """Return the code and the first explanation of an error, as one line."""
    found = error.diagnostics[0]
    why = found.notes[0].splitlines()[0] if found.notes else found.message
    return f"{found.code}: {why}"


def open_sizes(kernel: Source) -> tuple[str, ...]:
    """Return the sizes of a kernel that have no default."""
    return tuple(p.name for p in parse_kernel(kernel).params if p.kind == "size" and p.default is None)


def sizes_for(kernel: Source, given: Iterable[Sizes] = ()) -> tuple[Sizes, ...]:
    """Return the given size sets that name all open sizes of a kernel, or if there are none, two derived sets.

    These are derived from the kernel's name: a small set, and one beyond the length of most vectors.
    """
    names = open_sizes(kernel)
    fitting = tuple(sizes for sizes in given if set(sizes) == set(names))
    if fitting:
        return fitting
    draw = random.Random(kernel.name)
    return tuple(_draw_sizes(kernel, names, draw, low, high) for low, high in ((3, 9), (10, 23)))


def _draw_sizes(kernel: Source, names: Sequence[str], draw: random.Random, low: int, high: int) -> Sizes:
    """Return sizes between two limits that satisfy the kernel's `where`."""
    parsed = parse_kernel(kernel)
    for _ in range(MOST_DRAWS):
        sizes = {n: draw.randint(1, 3) if n in FEW else draw.randint(low, high) for n in names}
        try:
            bind(parsed, sizes)
        except UsageProblem:
            continue
        return sizes
    raise UsageProblem.of(
        "size-unbound", f"no odd sizes of `{parsed.name}` were found", help="give them by -D"
    )


MOST_DRAWS = 1000
FEW = ("R", "S", "T", "L", "G")
"""Sizes of filters, steps, and copies side by side, which make work and few new cases."""
