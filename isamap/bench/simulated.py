"""Rows of a suite on a machine that this computer cannot run: compiled, checked as a model, and simulated.

    simulate_row(CONVOLUTION_LAYERS, case, S8, rules)  ->  SimulatedRow(simulated_ns=1.3e5, array_ns=1.1e5, …)

Two roofs stand beside the simulated time: `array_ns`, all operations at the peak of the instruction that the
schedule uses, and `dram_ns`, each operand once over the link of main memory. What convolutions read lies in
memory with its margin of zeros, as such machines want it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from time import perf_counter
from typing import Any

from isamap.bench.cases import Form
from isamap.bench.kind import C
from isamap.bench.layer_kinds import LayerKind
from isamap.driver.pipeline import Compilation
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import CompiledKernel, prepare
from isamap.formulate.estimate import interval_ns
from isamap.machine import Machine
from isamap.match import pattern_of
from isamap.simulate.events import simulate
from isamap.source import IsamapError, added
from isamap.source.records import asdict, dataclass, field, fields, replace

OPERATIONS_PER_STEP = 2
# More than this is checked on a copy of the row whose sizes are cut: a model is plain C, one call a few
# seconds. Units: operations.
MOST_CHECKED = 2_000_000_000


@dataclass(frozen=True, slots=True)
class SimulatedRow:
    """One case in one form as a machine would run it.

    Units: nanoseconds of one call, by the simulator and by the cost model; of the roofs; of each unit's work.
    `instructions` are all that are issued. `checked` says on what the result was compared: "in full", or the
    label of the copy whose sizes were cut. `left_out` says why there are no times, `warnings` what
    was said while the schedule was looked for.
    """

    case: int
    suite: str
    kind: str
    label: str
    class_name: str
    sizes: Mapping[str, int]
    form: str
    operations: int
    machine: str
    instruction: str = ""
    instructions: int = 0
    simulated_ns: float = 0.0
    analytic_ns: float = 0.0
    bound_ns: float = 0.0
    array_ns: float = 0.0
    dram_ns: float = 0.0
    busy_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    is_right: bool = False
    checked: str = ""
    compile_seconds: float = 0.0
    left_out: str = ""
    warnings: str = ""

    @property
    def key(self) -> str:
        """What names the row in a file that is resumed; a suite may list a shape twice."""
        return f"{self.suite} {self.kind} {self.case} {self.label} {self.form} {self.machine}"

    @property
    def roof_ns(self) -> float:
        """The least time that both roofs allow."""
        return max(self.array_ns, self.dram_ns)

    @property
    def bound_by(self) -> str:
        """Which of them binds."""
        return "array" if self.array_ns >= self.dram_ns else "memory"

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON, with what follows from it."""
        return {**asdict(self), "roof_ns": self.roof_ns, "bound_by": self.bound_by}

    @staticmethod
    def from_json(data: dict[str, Any]) -> SimulatedRow:
        """Return the row that `as_json` gave."""
        return SimulatedRow(**{f.name: data[f.name] for f in fields(SimulatedRow) if f.name in data})


@dataclass(frozen=True, slots=True)
class SimulatedRules:
    """The rules for simulating rows. Units: `limit_s` of the solver per row."""

    machine: str
    limit_s: float


def empty_simulated(kind: LayerKind[C], case: C, form: Form, rules: SimulatedRules) -> SimulatedRow:
    """Return the row of a case before it is simulated."""
    return SimulatedRow(
        case.position, case.suite, kind.name, case.label, case.class_name, case.sizes, form.name,
        case.operations, rules.machine,
    )  # fmt: skip


def simulate_row(kind: LayerKind[C], case: C, form: Form, rules: SimulatedRules) -> SimulatedRow:
    """Return the row; one that cannot be compiled stays in the table with the reason."""
    row = empty_simulated(kind, case, form, rules)
    try:
        return _simulated(row, kind, case, form, rules)
    except IsamapError as error:
        said = "; ".join("; ".join((d.message, *d.notes[-2:])) for d in error.diagnostics)
        return replace(row, left_out=said)


def _simulated(
    row: SimulatedRow, kind: LayerKind[C], case: C, form: Form, rules: SimulatedRules
) -> SimulatedRow:
    started = perf_counter()
    kernel, made = _compiled(kind, case, form, rules)
    assert made.machine and made.schedule and made.problem and made.program  # noqa: PT018 - all stages have run
    row = replace(row, compile_seconds=perf_counter() - started)
    found = simulate(made.program, made.machine, made.problem)
    instruction, peak_per_ns = _peak(made)
    moved = added(
        prod(shape) * form.element_bytes(operand)
        for operand, shape in zip("ABC", kind.shapes(case).values(), strict=True)
    )
    is_right, checked = _checked(kernel, kind, case, form, rules)
    return replace(
        row,
        instruction=instruction,
        instructions=found.issues,
        simulated_ns=found.total_ns,
        analytic_ns=made.schedule.cost_ns or 0.0,
        bound_ns=made.schedule.lower_bound_ns or 0.0,
        array_ns=row.operations / peak_per_ns,
        dram_ns=moved / memory_bytes_per_ns(made.machine),
        busy_ns=dict(found.busy_ns),
        is_right=is_right,
        checked=checked,
        left_out="" if is_right else "the result is wrong",
        warnings="; ".join(finding.message for finding in made.schedule.findings),
    )


def _compiled(
    kind: LayerKind[C], case: C, form: Form, rules: SimulatedRules
) -> tuple[CompiledKernel, Compilation]:
    source = kind.source(kind.laid_out(case), form, 0)
    request = Request(source, rules.machine, case.bindings, limit_s=rules.limit_s, transform=BEST_FORM)
    prepared = prepare(request)
    return CompiledKernel(prepared, isolate=True), prepared.program.compilation


def _peak(made: Compilation) -> tuple[str, float]:
    """Return the instruction of the sum, and its operations per nanosecond with all of its lanes."""
    assert made.machine is not None
    assert made.schedule is not None
    assert made.problem is not None
    found = [(nest.mapping.split()[0], nest.choose) for nest in made.schedule.nests]
    rates = [(name, lanes(made.machine, name, dict(p))) for name, p in found]
    name, rate = max(rates, key=lambda pair: pair[1])
    return name, rate


def lanes(machine: Machine, name: str, params: Mapping[str, int]) -> float:
    """Return how many operations an instruction performs in a nanosecond: two for each iteration of its meaning."""
    item = machine.instructions[name]
    pattern = pattern_of(item.instruction)
    assert pattern is not None, "what statements are mapped to is one statement"
    steps = prod(axis.extent.substitute(params).value or 1 for axis in pattern.axes)
    interval = interval_ns(item, machine, params)
    return OPERATIONS_PER_STEP * steps / interval if interval else 0.0


def memory_bytes_per_ns(machine: Machine) -> float:
    """Return the widest link of the memory that the arrays of a caller lie in."""
    nearer = {link.target_memory for link in machine.links}
    outer = [link for link in machine.links if link.source_memory not in nearer]
    return max(link.bandwidth_bytes_per_ns for link in outer)


def _checked(
    kernel: CompiledKernel, kind: LayerKind[C], case: C, form: Form, rules: SimulatedRules
) -> tuple[bool, str]:
    """Return whether the result is right, and of what: the row in full, or the nearest copy that is small enough."""
    small, said = case, "in full"
    while small.operations > MOST_CHECKED:
        small = kind.smaller(small)
        said = small.label
    if small is not case:
        kernel, _ = _compiled(kind, small, form, rules)
    lies = kind.laid_out(small)
    arrays = {name: array for name, (_, array) in kind.values(lies, form).items()}
    arrays |= kernel(**arrays)
    return kind.is_right(lies, form, arrays), said
