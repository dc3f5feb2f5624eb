"""The recurrent layers of DeepBench as cases: how they run here, and how their results are checked.

    LSTM of 2048 units, 16 sequences, 25 steps  ->  CellCase(position=8, cell="lstm", steps=8, of_steps=25, …)

A layer has one direction and as many features as units, and its input's products are part of it: layers of
libraries cannot be told to leave them out. All steps cost the same, so that long sequences may be cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from isamap.bench.cases import BF16, F32, SUITES, Types
from isamap.bench.kind import DataMovement
from isamap.bench.paired_timing import TimedContender
from isamap.bench.ring import Array, Shared
from isamap.driver.deviation import find_deviation
from isamap.driver.inputs import named_kernel
from isamap.driver.oracle import expect
from isamap.ir import DTYPES, Kernel, bind, iterations_apart, round_to
from isamap.run.fills import make_arrays
from isamap.source import Source, dataclass, replace
from isamap.suites import Recurrent, read_suite
from isamap.syntax import parse_kernel

KERNELS = {"gru": "gru", "lstm": "lstm", "rnn": "rnn_relu"}
"""The shipped kernel of a cell in f32; `_bf16` follows its name in bf16."""
_SUITE_NAMES = {"rnn": "vanilla"}
FORMS_OF_DTYPE: dict[str, tuple[Types, ...]] = {"f32": (F32,), "bf16": (BF16,)}
FEW = 4
"""So many sequences, or fewer, are bound by reading the weights."""
ROUNDED_GATES = 2.0**-4
"""So much of the largest value, or of 1, a step may be off whose gates are rounded to bf16."""


@dataclass(frozen=True, slots=True)
class CellCase:
    """One row. `position` numbers the rows of its cell from 0, `of_steps` is the suite's number of steps."""

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
    def sizes(self) -> Mapping[str, int]:
        names = ("hidden", "batch", "steps", "of_steps")
        return {name: getattr(self, name) for name in names}

    @property
    def class_name(self) -> str:
        """The bottleneck of the row: reading the weights, or computing with them."""
        return f"up to {FEW} sequences" if self.batch <= FEW else "more sequences"

    @property
    def kernel(self) -> str:
        """The shipped kernel for f32. For bf16, `_bf16` is appended to its name."""
        return KERNELS[self.cell]

    @property
    def bindings(self) -> Mapping[str, int]:
        return {"T": self.steps, "N": self.batch, "C": self.hidden, "H": self.hidden}

    @property
    def label(self) -> str:
        """Units and sequences, and the number of steps that run."""
        steps = f"{self.steps} of {self.of_steps}" if self.steps < self.of_steps else f"all {self.steps}"
        return f"{self.hidden}x{self.batch}, {steps} steps"


def cell_cases(cell: str, steps: int | None, suites: Sequence[str] = SUITES) -> tuple[CellCase, ...]:
    """Return the rows of a cell, each with at most `steps` steps."""
    name = _SUITE_NAMES.get(cell, cell)
    rows = [r for r in read_suite("deepbench-rnn") if isinstance(r, Recurrent) and r.cell == name]
    return tuple(
        CellCase(n, r.part, cell, r.hidden, r.batch, min(steps or r.steps, r.steps), r.steps)
        for n, r in enumerate(r for r in rows if r.part in suites)
    )


def cell_source(case: CellCase, form: Types, beta: int = 0) -> Source:
    """Return the text of the kernel of a row."""
    return named_kernel(case.kernel + ("" if form == F32 else f"_{form.name}"))


def cell_kernel(case: CellCase, form: Types) -> Kernel:
    """Return the kernel of a row with its sizes."""
    return bind(parse_kernel(cell_source(case, form)), case.bindings)


def cell_values(case: CellCase, form: Types) -> dict[str, tuple[str, Array]]:
    """Return the arrays by name, each with its type. They are random, and representable in `form`."""
    kernel = cell_kernel(case, form)
    made = make_arrays(kernel, "random")
    exact = {name: round_to(values, DTYPES[form.a]).astype(values.dtype) for name, values in made.items()}
    return {name: (kernel.operand(name).dtype.name, values) for name, values in exact.items()}


def cell_work(case: CellCase, form: Types, beta: int = 0) -> DataMovement:
    """Return the work of a cell. The recurrent weights are read in each step, the input's weights once."""
    weights = case.gates * case.hidden**2 * form.element_bytes("B")
    states = 2 * case.steps * case.batch * case.hidden * form.element_bytes("A")
    held = 2 * weights + states
    return DataMovement(held, weights, weights * (case.steps + 1) + states, weights, case.operations)


def is_right(contender: TimedContender, case: CellCase, form: Types, beta: int, shared: Shared) -> bool:
    """Return whether one call is right. Each step is compared given the previous state."""
    found = shared.arrays["Y"][0]
    found[...] = np.nan
    contender.time(1)
    arrays = {name: copies[0] for name, copies in shared.arrays.items()}
    apart = iterations_apart(cell_kernel(case, form))
    assert apart is not None, "shipped cells show their state"
    given = {name: arrays[output] for name, output in apart.shown.items()}
    expected = expect(apart.kernel, {**arrays, **given}, {}, "random")["Y"]
    if contender.name != "isamap" and form != F32:
        more = ROUNDED_GATES * max(1.0, float(np.max(np.abs(expected.values))))
        expected = replace(expected, bound=expected.bound + more)
    return find_deviation(found, expected).ratio <= 1
