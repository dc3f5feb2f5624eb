"""Build a compilation request from the arguments of `compile`, `run` and `verify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding
from isamap.cli.words import read_choice, read_count, read_fixes, read_form, read_names, read_number
from isamap.driver.inputs import find_profile, machine_of, read_file, read_kernel
from isamap.driver.request import MAX_LIMIT_S, MAX_THREADS, MIN_LIMIT_S, MOST_TUNED, Request, Size
from isamap.plan.schedule import PROVEN
from isamap.source import Diagnostic, Source, UsageProblem

if TYPE_CHECKING:
    from isamap.libraries.description import Library

REQUIREMENTS = ("proven",)
"""The proofs that `--require` may ask of a schedule."""
# More schedules than this take longer to rank than they are worth.
MOST_SCHEDULES = 1000


@dataclass(frozen=True, slots=True)
class Choices:
    """The words of the options that say how to schedule and to emit."""

    schedule: str | None
    heuristic: str
    cost_model: str
    limit: str
    fix: list[str] | None
    model: bool
    profile: str = "default"
    transform: str | None = None
    evaluate: str = ""
    best: str = "1"
    threads: str = "1"
    no_cache: bool = False
    tune: str | None = None
    tune_limit: str = "120"
    search: str = ""
    tuned: bool = False
    packed: list[str] | None = None
    cold: bool = False


def make_request(kernel: str | Source, machine: str, sizes: Mapping[str, Size], choices: Choices) -> Request:
    """Return the request. Raises: UsageProblem for words that do not fit."""
    from isamap.plan.plugins import check_name

    _check_choosers(choices)
    schedule, name = choices.schedule, machine_of(machine)
    check_name("heuristic", choices.heuristic)
    check_name("cost model", choices.cost_model)
    if choices.evaluate:
        check_name("evaluator", choices.evaluate)
    if choices.search:
        check_name("searcher", choices.search)
    return Request(
        kernel=read_kernel(kernel) if isinstance(kernel, str) else kernel,
        machine=name,
        sizes=sizes,
        schedule=read_file(Path(schedule), schedule) if schedule is not None else None,
        heuristic=choices.heuristic,
        cost_model=choices.cost_model,
        limit_s=read_number(choices.limit, "--limit", MIN_LIMIT_S, MAX_LIMIT_S),
        fixed=read_fixes(choices.fix or (), has_schedule=schedule is not None),
        model=choices.model,
        profile=find_profile(choices.profile, name),
        transform=read_form(choices.transform),
        evaluate=choices.evaluate,
        best=read_count(choices.best, "--best", 1, MOST_SCHEDULES),
        threads=read_count(choices.threads, "--threads", 1, MAX_THREADS),
        cache=not choices.no_cache,
        tune=0 if choices.tune is None else read_count(choices.tune, "--tune", 2, MOST_TUNED),
        tune_limit_s=read_number(choices.tune_limit, "--tune-limit", 0.1, 86400),
        search=choices.search,
        tuned=choices.tuned,
        packed=read_names(choices.packed or ()),
        cold=choices.cold,
    )


def read_libraries(portfolio: bool, files: list[str] | None) -> tuple[Library, ...] | None:
    """Return the libraries to compare with, of the files or else all that are shipped; None where none are asked.

    Raises: UsageProblem, SpecProblem.
    """
    if not portfolio:
        if files:
            said = "`--library` describes what `--portfolio` compares with, and that is not asked for"
            raise UsageProblem(Diagnostic("usage", said, help="add `--portfolio`, or leave it out"))
        return None
    from isamap.libraries.description import read_library, shipped_libraries

    return tuple(read_library(Path(file), file) for file in files) if files else shipped_libraries()


def refuse_beside_portfolio(machines: Sequence[str], options: Mapping[str, object]) -> None:
    """Nothing, where the code of one machine is written and nothing else is asked. Raises: UsageProblem."""
    found = next((option for option, is_given in options.items() if is_given), None)
    if len(machines) > 1:
        said = f"`--portfolio` measures on one machine, and `--hw` names {len(machines)}"
    elif found is not None:
        said = (
            f"`{found}` is about the code that isamap emits, and `--portfolio` may put another in its place"
        )
    else:
        return
    raise UsageProblem(Diagnostic("usage", said, help="leave out one of them"))


def with_proof(answer: Answer, require: str) -> Answer:
    """Return the answer, with exit code 4 where `--require proven` was asked for and a gap is left."""
    if not require:
        return answer
    read_choice(require, "--require", REQUIREMENTS)
    open_ = [gap for gap in answer.gaps if gap is None or gap >= PROVEN]
    if not open_:
        return answer
    known = [gap for gap in open_ if gap is not None]
    far = f"may be {100 * max(known):.2g} % above the optimum" if known else "has no bound"
    lack = Diagnostic(
        "not-proven",
        f"the schedule {far}, and `--require proven` asks for a proof; what was found is kept",
        help="give the solver more time with --limit, or leave out --heuristic",
    )
    return replace(answer, findings=(*answer.findings, Finding.of(lack)), exit=answer.exit or 4)


def _check_choosers(choices: Choices) -> None:
    """Nothing, where one thing at most says which schedule to take. Raises: UsageProblem."""
    found = [
        option
        for option, is_given in (
            ("--schedule", choices.schedule is not None),
            ("--evaluate", bool(choices.evaluate)),
            ("--tune", choices.tune is not None),
            ("--tuned", choices.tuned),
        )
        if is_given
    ]
    if choices.search and choices.tune is None:
        message = (
            f"`--search {choices.search}` proposes what `--tune` measures, and nothing is to be measured"
        )
        raise UsageProblem(Diagnostic("usage", message, help="add `--tune 24`, or leave it out"))
    refuse_cold(choices.cold, [option for option in found if option != "--schedule"])
    if len(found) > 1 and ("--tune" in found or "--tuned" in found):
        message = f"`{found[0]}` and `{found[1]}` both say which schedule to take"
        raise UsageProblem(Diagnostic("usage", message, help="leave out one of them"))


def refuse_cold(cold: bool, measuring: Sequence[str]) -> None:
    """Nothing, unless something measures what `--cold` is about. Raises: UsageProblem."""
    if cold and measuring:
        message = (
            f"`--cold` says that operands are in no cache, and what `{measuring[0]}` goes by finds them there"
        )
        help_ = "leave out one of them; `isamap bench deepbench --cache rotate` measures with cold operands"
        raise UsageProblem(Diagnostic("usage", message, help=help_))
