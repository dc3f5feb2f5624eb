"""`isamap accesses`: how often each level of memory is read and written under a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isamap.cli.answers import Answer
from isamap.cli.early_words import read_sizes
from isamap.cli.option_parser import OnMachine, one_word
from isamap.driver.inputs import machine_of, read_kernel
from isamap.driver.options import read_choice
from isamap.driver.request import Choices, make_request
from isamap.source.progress import Progress
from isamap.source.records import dataclass, field

if TYPE_CHECKING:
    from isamap.ir import Kernel
    from isamap.machine import Machine
    from isamap.plan.problem import Problem
    from isamap.plan.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessesOptions(OnMachine):
    """The options of `accesses`."""

    convention: str = one_word("--convention", "NAME", "isamap, timeloop, zigzag or zigzag-energy.", "isamap")
    choices: Choices = field(default_factory=Choices)


def accesses_command(asked: AccessesOptions) -> Answer:
    """Count what each level of memory is read and written, by a declared convention."""
    from isamap.driver.explaining import schedule_accesses, statement_extents
    from isamap.driver.pipeline import compile_kernel
    from isamap.plan.access_counts import CONVENTIONS
    from isamap.report.access_tables import accesses_json, accesses_text
    from isamap.report.closed_forms import closed_forms  # brings SymPy
    from isamap.syntax import parse_kernel

    chosen = CONVENTIONS[read_choice(asked.convention, "--convention", tuple(CONVENTIONS))]
    named = read_kernel(asked.kernel), machine_of(asked.hw), read_sizes(asked.sizes)
    request = make_request(*named, asked.choices)
    with Progress() as progress:
        made = compile_kernel(request, "schedule", progress)
        progress("count")
        assert made.canonical is not None
        assert made.schedule is not None
        assert made.problem is not None
        assert made.machine is not None
        found = schedule_accesses(made.canonical, made.schedule, made.problem, made.machine, chosen)
        extents = statement_extents(parse_kernel(request.kernel), dict(made.schedule.sizes))
        # Blocks are of the sizes that they were made for: their formulas would be numbers.
        lasting = found if not made.schedule.blocks else ()
        forms = [closed_forms(s.statement, s.nest, extents[s.statement], chosen) for s in lasting]
    payload: dict[str, object] = {
        "kernel": made.kernel.name,
        "machine": made.machine.name,
        "sizes": dict(made.schedule.sizes),
        "accesses": accesses_json(chosen, found, forms),
    }
    return Answer(payload, accesses_text(chosen, found, forms))


def best_accesses_json(
    kernel: Kernel, schedule: Schedule, problem: Problem, machine: Machine
) -> dict[str, object]:
    """Return the counts of a schedule that was found, as the emitted code would make them."""
    from isamap.driver.explaining import schedule_accesses
    from isamap.plan.access_counts import CONVENTIONS
    from isamap.report.access_tables import accesses_json

    chosen = CONVENTIONS["isamap"]
    return accesses_json(chosen, schedule_accesses(kernel, schedule, problem, machine, chosen))
