"""`isamap schedule`: compare the schedules of several heuristics; `schedule diff`: explain an edit;
`accesses`: count how often each level of memory is read and written under a schedule.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding, check_new, with_proof, write_text
from isamap.cli.early_words import read_pair, read_sizes
from isamap.cli.option_parser import REQUIRE, CommandOptions, OnMachine, argument, flag, one_word, refuse
from isamap.driver.inputs import machine_of, read_file, read_kernel
from isamap.driver.options import option, plugin, read_choice
from isamap.driver.request import Choices, make_request, refuse_cold
from isamap.plan.plugins import known_names
from isamap.report.columns import align
from isamap.source import Source, UsageProblem, dataclass, field, replace
from isamap.source.progress import Progress
from isamap.suites import SUITES, suite_path

if TYPE_CHECKING:
    from isamap.driver.pipeline import Compilation
    from isamap.driver.request import Request, Size
    from isamap.plan.problem import Problem
    from isamap.plan.schedule import Schedule
    from isamap.report.compilation import Ordered
    from isamap.report.explained import Explained
    from isamap.report.schedules import Attempt, Verdicts
    from isamap.scheduler import Ranking


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions(OnMachine):
    """The options of `schedule`."""

    heuristics: tuple[str, ...] = option(
        "--heuristic", "NAME", "Ask this one, cpsat by default; several with commas, or repeated.",
        plugin("heuristic", many=True), default=(),
    )  # fmt: skip
    compare: bool = flag("--compare", "Ask all that there are.")
    choices: Choices = field(default_factory=Choices)
    require: str = REQUIRE.field()
    evaluators: tuple[str, ...] = option(
        "--evaluate", "NAME",
        "Evaluate all schedules: simulated, measured; several as above, the first one chooses.",
        plugin("evaluator", many=True), default=(),
    )  # fmt: skip
    report: bool = flag(
        "--report",
        "Also print the bottleneck, the loop tree, the time in parts, and the next best schedules.",
    )
    roofline: str | None = one_word("--roofline", "FILE", "Draw its roofline as SVG.")
    overwrite: bool = flag("--overwrite", "Replace the roofline's FILE where it exists.")
    again: bool = flag("--again", "Repeat cached evaluations.")
    rows: str | None = one_word(
        "--rows",
        "FILE.csv",
        "Schedule every row: sizes under a header that names them, or a shipped suite's name.",
    )
    pipeline: bool = flag("--pipeline", "Order innermost loops, modulo.")
    output: str | None = one_word("-o", "FILE", "Write the best schedule here.")


@dataclass(frozen=True, slots=True)
class Contest:
    """Schedules with their evaluations. `ranking` is None if only one schedule was requested."""

    attempts: Sequence[Attempt]
    verdicts: tuple[Verdicts, ...]
    ranking: Ranking | None

    @property
    def best(self) -> Attempt:
        """The winner by the first evaluator, or by the model without one."""
        from isamap.report.schedules import winner

        if self.verdicts:
            return winner(self.attempts, self.verdicts[0])
        return min(self.attempts, key=lambda a: a.schedule.cost_ns or 0.0)

    def text(self) -> str:
        """Return the table, and the summary."""
        from isamap.plan.text import fixed_words
        from isamap.report.schedules import contest_lines, contest_rows

        lines = [align(contest_rows(self.attempts, self.verdicts))]
        said = [] if self.ranking is None else [_describe_proof(self.ranking)]
        if fixed := fixed_words(self.best.schedule):
            said.append(f"cost, bound and gap: of schedules with {fixed}")
        said += contest_lines(self.attempts, self.verdicts)
        return "\n".join([*lines, *([""] if said else []), *said])

    def json(self) -> dict[str, object]:
        """Return the answer as JSON."""
        from isamap.report.schedules import agreement_json, contest_json

        found: dict[str, object] = {
            "best": self.best.heuristic,
            "attempts": contest_json(self.attempts, self.verdicts),
            "agreement": agreement_json(self.attempts, self.verdicts),
        }
        if self.ranking is not None:
            rest = self.ranking.rest_ns
            found["ranking"] = {
                "schedules": len(self.ranking.schedules),
                "proven": self.ranking.proven,
                "rest_ns": None if rest == float("inf") else rest,
                "reproducible": self.ranking.reproducible,
            }
        return found


def schedule_command(asked: ScheduleOptions) -> Answer:
    """Find a schedule of a kernel, or compare the schedules of several heuristics."""
    from isamap.driver.formulation import extent_of
    from isamap.driver.pipeline import compile_kernel
    from isamap.scheduler import start_early

    evaluators, report, roofline = asked.evaluators, asked.report, asked.roofline
    names = asked.heuristics or (known_names("heuristic") if asked.compare else ("cpsat",))
    if asked.choices.cold and evaluators:
        refuse_cold(["--evaluate"])
    request = make_request(
        read_kernel(asked.kernel), machine_of(asked.hw), read_sizes(asked.sizes),
        replace(asked.choices, heuristic=names[0]),
    )  # fmt: skip
    if roofline is not None and not asked.overwrite:
        check_new(Path(roofline))
    if asked.rows is not None:
        from isamap.cli.schedule_command import schedule_rows

        refuse(asked, ["--pipeline"], "orders the loops of one schedule, and `--rows` asks for many")
        return with_proof(schedule_rows(request, names, asked.rows, asked.output), asked.require)
    if "cpsat" in names and (request.best > 1 or report or roofline is not None):
        start_early()  # the next best ones are the solver's to find; the best one seldom needs it
    with Progress() as progress:
        many = asked.compare or len(names) > 1 or evaluators or report or roofline is not None
        matched = compile_kernel(request, "formulate", progress, "whole" if many else extent_of(request))
        attempts = [_attempt(replace(request, heuristic=name), matched.problem, progress) for name in names]
        contest = _hold_contest(request, matched, attempts, asked, progress)
        shown = _show_best(request, matched, contest, progress) if report or roofline is not None else None
        ordered = _order_best(request, matched, contest, progress) if asked.pipeline else None
    return with_proof(_answer(asked, matched, contest, shown, ordered), asked.require)


def _order_best(request: Request, matched: Compilation, contest: Contest, progress: Progress) -> Ordered:
    """Return the best schedule with its innermost loops pipelined, and the proven bound of each."""
    from isamap.driver.refining import with_pipelines

    progress("order innermost loops")
    assert matched.canonical is not None
    assert matched.machine is not None
    return with_pipelines(contest.best.schedule, matched.canonical, matched.machine, request.limit_s)


def _answer(
    asked: ScheduleOptions,
    matched: Compilation,
    contest: Contest,
    shown: Explained | None,
    ordered: Ordered | None,
) -> Answer:
    """Return the answer: all attempts, the requested views of the best schedule, and its text or file."""
    from isamap.plan.check import warn_unused_capacity
    from isamap.plan.text import print_schedule

    output, roofline = asked.output, asked.roofline
    text = print_schedule(ordered.schedule if ordered is not None else contest.best.schedule)
    files = [] if output is None else [output]
    payload = _payload(matched, contest, text) if asked.as_json else dict[str, object]()
    parts = [contest.text(), *_energy_text(matched, contest)]
    if output is not None:
        write_text(Path(output), text, overwrite=True)
    if ordered is not None:
        payload["pipelines"] = ordered.json()
        parts.append(ordered.text())
    if shown is not None:
        from isamap.report.explained import explained_json, explained_text

        payload["report"] = explained_json(shown)
        parts.append(explained_text(shown))
        if roofline is not None:
            write_text(Path(roofline), shown.svg(), overwrite=asked.overwrite)
            files.append(roofline)
    wrote = "\n".join(f"wrote {file}" for file in files)
    parts += ([text.rstrip()] if output is None else []) + ([wrote] if wrote else [])
    unused = warn_unused_capacity(contest.best.schedule, matched.problem) if matched.problem else ()
    found = dict.fromkeys((*(f for a in contest.attempts for f in a.schedule.findings), *unused))
    findings, gaps = tuple(map(Finding.of, found)), (contest.best.schedule.gap,)
    return Answer(payload | {"files": files}, "\n\n".join(parts), findings, gaps=gaps)


def _energy_text(matched: Compilation, contest: Contest) -> list[str]:
    """Return the energy of the best schedule by level and operand, or [] if no energies are stated."""
    from isamap.driver.explaining import schedule_accesses
    from isamap.plan.access_counts import CONVENTIONS
    from isamap.report.access_tables import energy_table

    kernel, problem, machine = matched.canonical, matched.problem, matched.machine
    if kernel is None or problem is None or machine is None or problem.energies is None:
        return []
    convention = CONVENTIONS["isamap"]
    return [energy_table(schedule_accesses(kernel, contest.best.schedule, problem, machine, convention))]


def _payload(matched: Compilation, contest: Contest, text: str) -> dict[str, object]:
    assert matched.canonical is not None
    assert matched.problem is not None
    assert matched.machine is not None
    # The counts of a found schedule as JSON, by the convention of emitted code.
    from isamap.driver.explaining import schedule_accesses
    from isamap.plan.access_counts import CONVENTIONS
    from isamap.report.access_tables import accesses_json

    chosen = CONVENTIONS["isamap"]
    return {
        "kernel": matched.problem.kernel,
        "machine": matched.problem.machine,
        "threads": matched.problem.threads,
        **contest.json(),
        "schedule": text,
        "accesses": accesses_json(
            chosen,
            schedule_accesses(
                matched.canonical, contest.best.schedule, matched.problem, matched.machine, chosen
            ),
        ),
        "mappings": _mappings(matched),
    }


def _mappings(matched: Compilation) -> dict[str, object]:
    """Return the number of mappings that the scheduler could choose, with reasons for the others, as JSON."""
    from isamap.driver.request import read_size
    from isamap.formulate.build import offers

    assert matched.canonical is not None
    assert matched.machine is not None
    assert matched.problem is not None
    sizes = {name: read_size(value) for name, value in matched.problem.sizes}
    found = offers(matched.canonical, matched.machine, sizes)
    return {
        "offered": sum(not o.why_not for o in found),
        "not_offered": [
            {"statement": o.statement, "mapping": o.mapping, "kind": o.kind, "why": o.why_not}
            for o in found
            if o.why_not
        ],
    }


def _attempt(request: Request, problem: Problem | None, progress: Progress) -> Attempt:
    from isamap.driver.pipeline import find_schedule
    from isamap.report.schedules import Attempt

    assert problem is not None
    progress(f"schedule ({request.heuristic})")
    started = time.perf_counter()
    found = find_schedule(request, problem)
    return Attempt(request.heuristic, found, time.perf_counter() - started)


def _hold_contest(
    request: Request,
    matched: Compilation,
    attempts: list[Attempt],
    asked: ScheduleOptions,
    progress: Progress,
) -> Contest:
    """Return the attempts, the other K best schedules, and the evaluators' results for all of them."""
    from isamap.driver.refining import rank_schedules
    from isamap.report.schedules import Attempt

    assert matched.problem is not None
    ranking: Ranking | None = None
    if request.best > 1:
        progress(f"schedule ({request.best} best)")
        started = time.perf_counter()
        ranking = rank_schedules(request, matched.problem)
        spent = time.perf_counter() - started
        known = {a.schedule.nests for a in attempts}
        first = attempts[0].schedule
        for number, schedule in enumerate(ranking.schedules, 1):
            if schedule.nests not in known:
                own = replace(schedule, profile=first.profile, question=first.question)
                attempts = [*attempts, Attempt(f"best {number}", own, spent)]
    verdicts = tuple(
        _verdicts(request, matched, attempts, name, progress, again=asked.again) for name in asked.evaluators
    )
    return Contest(attempts, verdicts, ranking)


def _show_best(request: Request, matched: Compilation, contest: Contest, progress: Progress) -> Explained:
    """Return the report of the best schedule, with the cheapest schedules as runners-up."""
    from isamap.driver.explaining import explain
    from isamap.driver.refining import RUNNERS_UP, rank_schedules

    assert matched.machine is not None
    assert matched.problem is not None
    progress("report")
    ranking = contest.ranking or rank_schedules(replace(request, best=RUNNERS_UP), matched.problem)
    best, model = contest.best.schedule, request.cost_model
    return explain(best, matched.problem, matched.machine, model, ranking.schedules)


def _verdicts(
    request: Request,
    matched: Compilation,
    attempts: list[Attempt],
    evaluator: str,
    progress: Progress,
    *,
    again: bool,
) -> Verdicts:
    from isamap.driver.refining import evaluate_schedules
    from isamap.driver.request import complete_sizes
    from isamap.plan.protocols import Trial
    from isamap.report.schedules import Verdicts
    from isamap.syntax import parse_kernel

    assert matched.canonical is not None
    assert matched.machine is not None
    assert matched.problem is not None
    progress(f"evaluate ({evaluator})")
    sizes = complete_sizes(parse_kernel(request.kernel), request.sizes)
    distinct = {a.schedule.nests: a.schedule for a in reversed(attempts)}
    trials = [
        Trial(matched.canonical, matched.machine, matched.problem, schedule, sizes)
        for schedule in reversed(distinct.values())
    ]
    found = evaluate_schedules(request, trials, evaluator, again=again)
    said = {e.schedule.nests: e.evaluation for e in found}
    return Verdicts(evaluator, said, frozenset(e.schedule.nests for e in found if e.is_recalled))


def _describe_proof(ranking: Ranking) -> str:
    listed, proven = len(ranking.schedules), ranking.proven
    if ranking.rest_ns == float("inf"):
        return f"there are {listed} schedules, and no others"
    if proven == listed:
        return f"proven: no other schedule is cheaper than these {listed} by the model"
    rest = f"any other costs at least {ranking.rest_ns:.1f} ns by the model"
    return f"{proven} of the {listed} cheapest are proven to be; {rest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions(CommandOptions):
    """The options of `schedule diff`."""

    before: str = argument("BEFORE", "A schedule's file.")
    after: str = argument("AFTER", "Another one.")
    kernel: str | None = one_word("--kernel", "KERNEL", "Its kernel, if it is not a shipped one.")
    hw: str | None = one_word("--hw", "MACHINE", "Its machine, if it is not a shipped one.")
    choices: Choices = field(default_factory=Choices)


def diff_command(asked: DiffOptions) -> Answer:
    """Show what one schedule changes in another one, and what the changes cost."""
    from isamap.plan.check import check_schedule
    from isamap.plan.plugins import load_cost_model
    from isamap.plan.text import parse_schedule, split_versions
    from isamap.report.schedules import NestChange, change_json, change_text, changes
    from isamap.scheduler.nests.pricing import price, why_unpriced

    model, kernel, hw = load_cost_model(asked.choices.cost_model), asked.kernel, asked.hw
    texts = (split_versions(read_file(Path(name), name)) for name in (asked.before, asked.after))
    olds, news = ([parse_schedule(text) for text in each] for each in texts)
    old, found, words = olds[0], list[NestChange](), list[str]()
    for one, other in _pairs(olds, news):
        costs, why = list[tuple[float | None, ...]](), list[tuple[str, ...]]()
        for schedule in (one, other):
            with _names_files(schedule, kernel, hw):
                problem = _problem(schedule, kernel, machine_of(hw or one.machine), asked.choices)
            if findings := check_schedule(schedule, problem):
                raise UsageProblem(*findings)
            costs.append(price(schedule, problem, model))
            why.append(why_unpriced(schedule, problem))
        own = changes(one, other, costs[0], costs[1], list(zip(*why, strict=True)))
        found += own
        words += [f"for {_words(one.sizes)}"] if own and len(olds) > 1 else []
        words += [change_text(change) for change in own]
    payload: dict[str, object] = {
        "kernel": old.kernel,
        "machine": old.machine,
        "model": model.name,
        "changes": [change_json(change) for change in found],
    }
    return Answer(payload, "\n\n".join(words) or "the same")


@contextmanager
def _names_files(schedule: Schedule, kernel: str | None, hw: str | None) -> Generator[None]:
    """Add the option that names a file to errors about unknown names in it."""
    try:
        yield
    except UsageProblem as problem:
        options = {
            "unknown-kernel": ("--kernel", schedule.kernel, "FILE.ir") if kernel is None else None,
            "unknown-machine": ("--hw", schedule.machine, "FILE.yaml") if hw is None else None,
        }
        found = options.get(problem.diagnostics[0].code)
        if found is None:
            raise
        option, name, file = found
        advice = f"the schedules name `{name}`: say which file that is with `{option} {file}`"
        raise UsageProblem(replace(problem.diagnostics[0], help=advice)) from None


def _problem(schedule: Schedule, kernel: str | None, machine: str, choices: Choices) -> Problem:
    """Return the problem of a schedule, with its packed inputs."""
    from isamap.driver.pipeline import compile_kernel
    from isamap.formulate.packable import packed_tensors

    request = make_request(read_kernel(kernel or schedule.kernel), machine, dict(schedule.sizes), choices)
    with Progress() as progress:
        problem = compile_kernel(request, "formulate", progress).problem
        assert problem is not None
        if packed := packed_tensors(schedule, problem):
            problem = compile_kernel(replace(request, packed=packed), "formulate", progress).problem
    assert problem is not None
    return problem


def _pairs(olds: list[Schedule], news: list[Schedule]) -> list[tuple[Schedule, Schedule]]:
    """Return the schedules of two files in pairs. Raises: UsageProblem if they are for different programs."""
    if len(olds) != len(news):
        raise _different("parts of the sizes", str(len(olds)), str(len(news)))
    for one, other in zip(olds, news, strict=True):
        for what in ("kernel", "machine", "sizes"):
            if (ours := getattr(one, what)) != (theirs := getattr(other, what)):
                raise _different(what, _words(ours), _words(theirs))
    return list(zip(olds, news, strict=True))


def _different(what: str, ours: str, theirs: str) -> UsageProblem:
    return UsageProblem.of(
        "schedule-mismatch",
        f"the two schedules are for different {what}: {ours} and {theirs}",
        help="compare schedules of one kernel, on one machine, at the same sizes",
    )


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join("=".join(map(str, pair)) for pair in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - sizes
    return str(value)


# --- schedule rows --------------------------------------------------------------------------------------

# `isamap schedule --rows`: one kernel at many sizes, in one process.


@dataclass(frozen=True, slots=True)
class Done:
    """The schedule that one heuristic found for one row. Units: `seconds`, from the kernel's text on."""

    sizes: Mapping[str, Size]
    heuristic: str
    schedule: Schedule
    seconds: float


def schedule_rows(request: Request, heuristics: Sequence[str], rows: str, output: str | None) -> Answer:
    """Return a schedule for every row of a table. Raises: UsageProblem for a table without sizes of the kernel."""
    if output is not None:
        raise UsageProblem.of(
            "rows-output",
            "`-o` writes one schedule, and `--rows` asks for many",
            help="leave out `-o`; `--json` gives all schedules as text",
        )
    sets = read_rows(request, rows)
    done: list[Done] = []
    with Progress() as progress:
        for number, sizes in enumerate(sets, 1):
            progress(f"schedule {number} of {len(sets)}")
            done += [_schedule(replace(request, sizes=sizes, heuristic=name)) for name in heuristics]
    findings = dict.fromkeys(finding for row in done for finding in row.schedule.findings)
    gaps = tuple(row.schedule.gap for row in done)
    return Answer(
        _payload_schedule_rows(request, done), _text(done), tuple(map(Finding.of, findings)), gaps=gaps
    )


def _schedule(request: Request) -> Done:
    from isamap.driver.pipeline import compile_kernel
    from isamap.source.process import full_collection_put_off

    with full_collection_put_off():  # between rows, and in none's seconds
        started = time.perf_counter()
        found = compile_kernel(request, "schedule").schedule
        assert found is not None
        return Done(request.sizes, request.heuristic, found, time.perf_counter() - started)


def read_rows(request: Request, name: str) -> list[dict[str, Size]]:
    """Return the sizes of every row: from the columns that name sizes, and common ones."""
    from isamap.syntax import parse_kernel

    source = read_file(suite_path(name) if name in SUITES else Path(name), name)
    kernel = parse_kernel(request.kernel)
    known = {param.name for param in kernel.params}
    header, rows = _cells(source)
    columns = [column for column in header if column in known]
    if not columns:
        raise UsageProblem.of(
            "rows-without-sizes",
            f"no column of {name} is a size of {kernel.name}",
            notes=(
                f"columns: {', '.join(c[:40] for c in header[:12]) or 'none'}",
                f"sizes: {', '.join(param.name for param in kernel.params)}",
            ),
            help="the first line names the columns, as in `M,N,K`",
        )
    common = {n: size for n, size in request.sizes.items() if n not in columns}
    return [common | dict(read_pair(f"{c}={row[c] or ''}") for c in columns) for row in rows]


def _cells(source: Source) -> tuple[list[str], list[dict[str, str]]]:
    """Return the header of a table, and its rows. Raises: UsageProblem for invalid CSV."""
    reader = csv.DictReader(source.text.splitlines())
    try:
        return list(reader.fieldnames or ()), list(reader)
    except csv.Error as error:  # a cell longer than such a reader takes
        said = f"{source.name} is not a table: line {reader.line_num}: {error}"
        raise UsageProblem.of("rows-without-sizes", said) from None


def _payload_schedule_rows(request: Request, done: Sequence[Done]) -> dict[str, object]:
    from isamap.plan.text import print_schedule

    return {
        "kernel": request.kernel.name,
        "machine": request.machine,
        "rows": [
            {
                "sizes": dict(row.sizes),
                "heuristic": row.heuristic,
                "cost_ns": row.schedule.cost_ns,
                "lower_bound_ns": row.schedule.lower_bound_ns,
                "gap": row.schedule.gap,
                "status": row.schedule.status,
                "found_by": row.schedule.found_by or None,
                "proved_by": row.schedule.proved_by or None,
                "fixed": dict(row.schedule.fixed),
                "reproducible": row.schedule.reproducible,
                "seconds": row.seconds,
                "schedule": print_schedule(row.schedule),
            }
            for row in done
        ],
    }


def _text(done: Sequence[Done]) -> str:
    from isamap.plan.text import fixed_words

    lines = [("sizes", "heuristic", "cost_ns", "gap", "status", "seconds")]
    for row in done:
        sizes = " ".join(f"{name}={value}" for name, value in row.sizes.items())
        gap = "" if row.schedule.gap is None else f"{100 * row.schedule.gap:.1f} %"
        cost = "" if row.schedule.cost_ns is None else f"{row.schedule.cost_ns:.1f}"
        lines.append((sizes, row.heuristic, cost, gap, row.schedule.status, f"{row.seconds:.2f}"))
    total = sum(row.seconds for row in done)
    worst = max((row.schedule.gap or 0.0 for row in done), default=0.0)
    fixed = f" with {fixed_words(done[0].schedule)}" if done and done[0].schedule.fixed else ""
    return f"{align(lines)}\n\n{len(done)} schedules{fixed} in {total:.1f} s, largest gap {100 * worst:.1f} %"


# --- accesses -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessesOptions(OnMachine):
    """The options of `accesses`."""

    convention: str = one_word("--convention", "NAME", "isamap, timeloop, zigzag or zigzag-energy.", "isamap")
    choices: Choices = field(default_factory=Choices)


def accesses_command(asked: AccessesOptions) -> Answer:
    """Count the reads and writes of each level of memory, by a declared convention."""
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
