"""Assemble the report of a compilation: all decisions and known facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from isamap.driver.explaining import explain, schedule_accesses
from isamap.driver.pipeline import Compilation
from isamap.driver.refining import RUNNERS_UP, rank_schedules
from isamap.driver.request import Request, read_size
from isamap.driver.stages import Watch
from isamap.emit.c import EmittedC
from isamap.ir import Kernel, print_routine, typical_size
from isamap.lower.program import LoweredProgram
from isamap.machine import Machine
from isamap.match import statement_text
from isamap.plan.access_counts import CONVENTIONS
from isamap.plan.problem import NestOption, Problem, chosen_options
from isamap.plan.schedule import Schedule, cost_unit
from isamap.plan.text import fixed_words, print_schedule
from isamap.report.access_tables import energy_figures
from isamap.report.columns import Row, energy_text, percent_text
from isamap.report.explained import Explained
from isamap.report.mappings import time_text
from isamap.report.page.line_links import LinkedNest, code_lines, kernel_lines, listing_lines, schedule_lines
from isamap.report.page.memories import memories_of
from isamap.report.page.report_facts import Pane, Report, SubjectLine
from isamap.report.page.timeline import timeline_of, trace_json
from isamap.report.page.traffic import access_rows, levels_by_model, levels_by_program, with_links
from isamap.report.roofline import Roofline, roofline_sentence
from isamap.simulate.recording import Recorded, record
from isamap.source import Source, UsageProblem, dataclass, replace
from isamap.source.process import full_collection_put_off
from isamap.stream.assemble import assemble
from isamap.stream.listing import list_program
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, statements

MOST_BYTES, MARKUP_BYTES = 1_200_000, 90
"""Of a text that is shown, for a page below 2 MB; and what a line takes beside its characters."""
MOST_LISTED = 1_000
"""Lines of a listing of words that are shown: it has no loops."""


@dataclass(frozen=True, slots=True)
class CompletedCompilation:
    """A compilation that has passed all stages."""

    request: Request
    machine: Machine
    problem: Problem
    schedule: Schedule
    program: LoweredProgram
    emitted: EmittedC
    nests: tuple[LinkedNest, ...]
    compilation: Compilation

    @staticmethod
    def of(request: Request, made: Compilation) -> CompletedCompilation:
        """Return a completed compilation. Raises: AssertionError if a stage is missing."""
        assert made.canonical and made.machine and made.problem  # noqa: PT018 - they are all there, or none is
        assert made.schedule and made.program  # noqa: PT018 - as above
        assert isinstance(made.emitted, EmittedC)
        given = statements(made.canonical)
        nests = tuple(
            LinkedNest(
                nest, option, tuple(statement_text(given[n]) for n in sorted((nest.statement, *nest.fused)))
            )
            for nest, option in chosen_options(made.schedule, made.problem)
        )
        return CompletedCompilation(
            request, made.machine, made.problem, made.schedule, made.program, made.emitted, nests, made
        )

    def profile(self) -> Mapping[str, int]:
        """Return the sizes, with typical values in place of ranges."""
        return {name: typical_size(read_size(size)) for name, size in self.schedule.sizes}


@full_collection_put_off()
def recording_of(
    request: Request, compilation: Compilation, watch: Watch = lambda _: None, *, is_recorded: bool = False
) -> Recorded | None:
    """Return the simulated events of one call if separate units fill memories or if `is_recorded`, else None.

    Raises: UsageProblem if it is requested for a program for several vector lengths.
    """
    made = CompletedCompilation.of(request, compilation)
    has_scratchpads = any(memory.kind == "scratchpad" for memory in made.machine.memories.values())
    if not (is_recorded or has_scratchpads):
        return None
    if made.program.lengths is not None:
        said = "a program for several lengths of vectors is not simulated"
        raise UsageProblem.of("several-lengths", said, help="name one length, or leave out --trace")
    watch("simulate")
    return record(made.program, made.machine, made.problem, made.profile())


@full_collection_put_off()
def trace_of(request: Request, compilation: Compilation, recorded: Recorded | None) -> str:
    """Return the trace of a call that was recorded, as JSON."""
    assert recorded is not None, "it was requested"
    made = CompletedCompilation.of(request, compilation)
    timeline = timeline_of(recorded, made.machine)
    memories = memories_of(made.program, made.machine, recorded)
    return trace_json(f"{compilation.kernel.name} on {made.machine.name}", recorded, timeline, memories)


@full_collection_put_off()
def report_of(
    request: Request, compilation: Compilation, found: Recorded | None, watch: Watch = lambda _: None
) -> Report:
    """Return the report. If sizes have several schedules, it shows the last one."""
    made = CompletedCompilation.of(request, compilation)
    watch("report")
    if not any(memory.kind == "scratchpad" for memory in made.machine.memories.values()):
        found = None  # caches hide what moves when: the model's shares say more
    ranked = rank_schedules(replace(request, best=RUNNERS_UP), made.problem).schedules
    shown = explain(made.schedule, made.problem, made.machine, request.cost_model, ranked)
    why = "the machine has no scratchpad; see the parts of the time"
    if found is not None:
        shown = replace(shown, roofs=_with_links(shown, made, found))
    assert compilation.canonical is not None, "what was compiled is canonical"
    known = compilation.canonical, made.schedule, made.problem, made.machine
    counted = schedule_accesses(*known, CONVENTIONS["isamap"])
    return Report(
        compilation.kernel.name,
        made.machine.name,
        ", ".join(f"{name} = {value}" for name, value in made.schedule.sizes),
        _sentence(compilation.kernel.name, shown, made.schedule, found),
        (*_figures(made, shown, found), *energy_figures(counted)),
        tuple(_panes(made, found)),
        _mappings(made, shown),
        shown,
        timeline_of(found, made.machine) if found is not None else None,
        why if found is None else "",
        memories_of(made.program, made.machine, found),
        levels_by_program(found, made.program, made.machine)
        if found is not None
        else levels_by_model(shown.roofs, counted, made.problem, made.machine),
        access_rows(counted),
        tuple(warning.render() for warning in compilation.warnings),
    )


def _with_links(shown: Explained, made: CompletedCompilation, found: Recorded) -> tuple[Roofline, ...]:
    notes = {nest.schedule.statement: nest.note for nest in made.nests}
    return tuple(
        with_links(roof, notes[roof.statement], found, made.program, made.machine) for roof in shown.roofs
    )


def _sentence(kernel: str, shown: Explained, schedule: Schedule, found: Recorded | None) -> str:
    """Return a sentence that names the bottleneck and says how much it limits the speed."""
    took = (
        f" takes {_cost_text(schedule, schedule.cost_ns)} by the model"
        if schedule.cost_ns is not None
        else ""
    )
    if found is not None:
        whole = found.simulation.total_ns
        unit, busy = max(found.simulation.busy_ns, key=lambda pair: pair[1])
        took += f", {time_text(whole)} simulated with {unit} busy for {percent_text(busy / whole)}"
    said = f"{kernel}{took}{':' if took else ' is'} {shown.sentence}"
    most = _largest(shown)
    return f"{said}. {roofline_sentence(most)}." if most is not None else f"{said}."


def _cost_text(schedule: Schedule, cost: float) -> str:
    """Return a schedule's cost with its unit as text."""
    unit = cost_unit(schedule.model)
    return time_text(cost) if unit == "ns" else energy_text(cost) if unit == "pJ" else f"{cost:.4g} {unit}"


def _largest(shown: Explained) -> Roofline | None:
    """Return the roofline of the statement with most operations, or None."""
    return max(shown.roofs, key=lambda roof: roof.operations, default=None)


def _figures(
    made: CompletedCompilation, shown: Explained, found: Recorded | None
) -> Sequence[tuple[str, str]]:
    schedule = made.schedule
    figures: list[tuple[str, str]] = []
    if schedule.cost_ns is not None:
        named = "time" if cost_unit(schedule.model) == "ns" else schedule.model
        figures.append((f"{named} by the model", _cost_text(schedule, schedule.cost_ns)))
    if schedule.lower_bound_ns is not None:
        least = _cost_text(schedule, schedule.lower_bound_ns)
        figures.append(("proven: no schedule takes less than", least))
    if schedule.gap is not None:
        figures.append(("gap", percent_text(schedule.gap)))
    if found is not None:
        figures.append(("simulated time", time_text(found.simulation.total_ns)))
    figures.append(("status", schedule.status))
    if schedule.found_by:
        figures.append(("found by", schedule.found_by))
    if schedule.fixed:
        figures.append(("fixed", fixed_words(schedule)))
    if (most := _largest(shown)) is not None:
        figures.append((f"statement {most.statement} reaches", roofline_sentence(most)))
    return figures


def _panes(made: CompletedCompilation, found: Recorded | None) -> Iterator[Pane]:
    title, text, kernel = _kernel_text(made)
    schedule = print_schedule(made.schedule)
    name = f"{made.emitted.name}.c"
    code = code_lines(made.emitted.source, made.nests)
    yield _pane("kernel", f"Kernel {title}", kernel_lines(text, kernel, made.nests))
    yield _pane("schedule", f"Schedule {made.emitted.name}.schedule", schedule_lines(schedule, made.nests))
    yield _pane("emitted", f"Code {name}", code)
    if made.machine.program is not None and not made.program.symbols:
        yield _list_instructions(made, code, found.simulation.issues if found is not None else MOST_LISTED)


def _list_instructions(made: CompletedCompilation, code: Sequence[SubjectLine], issues: int) -> Pane:
    """Return the listing of the program's instructions, shortened, or the reason why there is none."""
    try:
        program = assemble(made.program, made.machine, first=MOST_LISTED)
    except UsageProblem as problem:
        lines = problem.diagnostics[0].render().splitlines()
        return Pane("words", "No encoded program", tuple(SubjectLine(line) for line in lines))
    arrays = frozenset(array.name for array in program.arrays)
    text = list_program(program, made.machine)
    if issues > MOST_LISTED:  # which counts what it lists
        head, _, *others = text.splitlines()
        text = "\n".join([head, f"# the first {MOST_LISTED} of {issues} instructions", *others])
    lines = listing_lines(text, code, arrays)
    title = f"Words {program.kernel}-{program.machine}.program"
    return Pane("words", title, lines, max(0, issues - MOST_LISTED))


def _kernel_text(made: CompletedCompilation) -> tuple[str, str, Kernel]:
    """Return the kernel as written or as rewritten, and the scheduled kernel with spans in that text."""
    rewrite = made.compilation.rewrite
    if rewrite is not None and rewrite.steps:
        text = print_routine(rewrite.kernel)
        parsed = parse_kernel(Source(rewrite.kernel.name, text))
        return f"{rewrite.kernel.name}.ir, rewritten", text, make_guards_explicit(parsed)
    assert made.compilation.canonical is not None, "all stages have run"
    return made.request.kernel.name, made.request.kernel.text, made.compilation.canonical


def _pane(name: str, title: str, lines: Sequence[SubjectLine]) -> Pane:
    """Return a pane with the text, shortened to the page's limit."""
    ends = accumulate(MARKUP_BYTES + len(line.text) for line in lines)
    shown = sum(1 for end in ends if end <= MOST_BYTES)
    return Pane(name, title, tuple(lines[:shown]), len(lines) - shown)


def _mappings(made: CompletedCompilation, shown: Explained) -> tuple[Row, ...]:
    """Return a table of each statement's mapping, its price, and the number of alternatives."""
    costs = {spent.statement: spent.total_ns for spent in shown.spent}
    options: dict[int, tuple[NestOption, ...]] = {n.statement: n.options for n in made.problem.nests}
    rows: list[Row] = [("statement", "computes", "by", "time by the model", "mappings to choose from")]
    for nest in made.nests:
        number = nest.schedule.statement
        numbers = ", ".join(map(str, sorted((number, *nest.schedule.fused))))
        cost = time_text(costs[number]) if number in costs else "unknown"
        chosen = ", ".join(f"{name} = {value}" for name, value in nest.schedule.choose)
        by = f"{nest.schedule.mapping}{'; ' if chosen else ''}{chosen}"
        rows.append((numbers, " ".join(nest.texts), by, cost, str(len(options[number]))))
    return tuple(rows)
