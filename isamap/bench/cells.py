"""The recurrent layers of DeepBench as they are run here, and the result of one row, as it is kept.

    LSTM of 2048 units, 16 sequences, 25 steps  ->  CellCase(position=8, cell="lstm", steps=8, of_steps=25, …)

A layer has one direction and as many features as units, and its input's products are part of it: layers of
libraries cannot be told to leave them out. All steps cost the same, so that long sequences may be cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from isamap.bench.cases import SUITES
from isamap.bench.ring import Array
from isamap.codegen.fills import make_arrays
from isamap.driver.inputs import named_kernel
from isamap.ir import DTYPES, Kernel, bind, round_to
from isamap.source import Source
from isamap.suites import Recurrent, read_suite
from isamap.syntax import parse_kernel

KERNELS = {"gru": "gru", "lstm": "lstm", "rnn": "rnn_relu"}
"""The shipped kernel of a cell in f32; `_bf16` follows its name in bf16."""
_SUITE_NAMES = {"rnn": "vanilla"}
FORMS = ("f32", "bf16")
FEW = 4
"""So many sequences, or fewer, are bound by reading the weights."""


@dataclass(frozen=True, slots=True)
class CellCase:
    """One row; `position` counts from 0 through the rows of its cell, `of_steps` are those of the suite."""

    position: int
    suite: str
    cell: str
    hidden: int
    batch: int
    steps: int
    of_steps: int

    @property
    def gates(self) -> int:
        return {"gru": 3, "lstm": 4, "rnn": 1}[self.cell]

    @property
    def operations(self) -> int:
        """Multiplications and additions of the products with the input and with the state."""
        return 4 * self.gates * self.hidden**2 * self.batch * self.steps

    @property
    def sizes(self) -> dict[str, int]:
        return {"T": self.steps, "N": self.batch, "C": self.hidden, "H": self.hidden}

    @property
    def label(self) -> str:
        """Units and sequences, and the steps that are run of those of the suite."""
        steps = f"{self.steps} of {self.of_steps}" if self.steps < self.of_steps else f"all {self.steps}"
        return f"{self.hidden}x{self.batch}, {steps} steps"


def cell_cases(cell: str, steps: int | None, suites: Sequence[str] = SUITES) -> tuple[CellCase, ...]:
    """The rows of a cell, each with at most so many steps."""
    name = _SUITE_NAMES.get(cell, cell)
    rows = [r for r in read_suite("deepbench-rnn") if isinstance(r, Recurrent) and r.cell == name]
    return tuple(
        CellCase(n, r.part, cell, r.hidden, r.batch, min(steps or r.steps, r.steps), r.steps)
        for n, r in enumerate(r for r in rows if r.part in suites)
    )


def kernel_name(case: CellCase, form: str) -> str:
    """The shipped kernel of a row."""
    return KERNELS[case.cell] + ("" if form == "f32" else f"_{form}")


def cell_source(case: CellCase, form: str) -> Source:
    """The text of the kernel of a row."""
    return named_kernel(kernel_name(case, form))


def cell_kernel(case: CellCase, form: str) -> Kernel:
    """The kernel of a row with its sizes."""
    return bind(parse_kernel(cell_source(case, form)), case.sizes)


def cell_values(kernel: Kernel, form: str) -> dict[str, tuple[str, Array]]:
    """Its arrays by name, each with its type: random, and in f32 as well such numbers as `form` holds."""
    made = make_arrays(kernel, "random")
    exact = {name: round_to(values, DTYPES[form]).astype(values.dtype) for name, values in made.items()}
    return {name: (kernel.operand(name).dtype.name, values) for name, values in exact.items()}


@dataclass(frozen=True, slots=True)
class CellRow:
    """One case in one form with the times of all contenders. Units and fields as of a product's `Row`."""

    case: int
    suite: str
    cell: str
    label: str
    hidden: int
    batch: int
    steps: int
    of_steps: int
    form: str
    threads: int
    operations: int
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    implementation: Mapping[str, str] = field(default_factory=dict[str, str])
    verified: Mapping[str, bool] = field(default_factory=dict[str, bool])
    ratio: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    attainable_seconds: float = 0.0
    bound_by: str = ""
    predicted_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    compile_seconds: float = 0.0
    left_out: str = ""

    @property
    def key(self) -> str:
        """What names the row in a file that is resumed."""
        return f"{self.suite} {self.cell} {self.label} {self.form} threads={self.threads}"

    @property
    def best_baseline(self) -> str | None:
        """The baseline that takes least time, of those whose results are right."""
        known = {n: median(s) for n, s in self.seconds.items() if n != "isamap"}
        return min(known, key=lambda name: known[name]) if known else None

    def as_json(self) -> dict[str, Any]:
        """The row as JSON, with what follows from it."""
        middle = {name: median(times) for name, times in self.seconds.items()}
        return {
            **asdict(self),
            "seconds": {n: {"min": min(t), "median": middle[n]} for n, t in self.seconds.items()},
            "rounds_seconds": {n: list(t) for n, t in self.seconds.items()},
            "gflops": {n: self.operations / t / 1e9 for n, t in middle.items()},
            "roofline_fraction": self.attainable_seconds / middle["isamap"] if "isamap" in middle else None,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> CellRow:
        """The row that `as_json` gave."""
        kept = {n: v for n, v in data.items() if n not in ("gflops", "roofline_fraction", "rounds_seconds")}
        kept["seconds"] = {name: tuple(times) for name, times in data["rounds_seconds"].items()}
        return CellRow(**kept)


def empty_row(case: CellCase, form: str, threads: int, left_out: str = "") -> CellRow:
    """The row of a case before it is measured."""
    return CellRow(
        case.position, case.suite, case.cell, case.label, case.hidden, case.batch, case.steps, case.of_steps,
        form, threads, case.operations, left_out=left_out,
    )  # fmt: skip
