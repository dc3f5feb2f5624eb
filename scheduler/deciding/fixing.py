"""The decisions that a user fixes, by the names that users write.

tile.K = 512         ->  nest0.block.k = 512       the only statement, `tile` for a block, K for axis k
order.n.m = 1        ->  nest0.order.m.n = 0       the pair as the problem lists it
block.k = 512        ->  refused where statements 0 and 2 both have it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from isamap.plan.decisions import domain_of, mapping_of, parallel_of
from isamap.plan.problem import NestProblem, Problem
from isamap.scheduler.deciding.space import Space
from isamap.source import Diagnostic, UsageProblem

SHOWN = 12  # of a message: the names that it lists


def resolve(problem: Problem, fixed: Mapping[str, int]) -> dict[str, int]:
    """Return decisions by their full names.

    Raises: UsageProblem for unknown, ambiguous and contradictory ones, and for values that none takes.
    """
    known = all_names(problem)
    found: dict[str, int] = {}
    for word, value in fixed.items():
        name, given = _resolve_word(word, value, known)
        _check_value(name, given)
        if found.get(name, given) != given:
            raise UsageProblem.of("fix-twice", f"`{name}` is fixed twice: to {found[name]}, and to {given}")
        found[name] = given
    return dict(sorted(found.items()))


def all_names(problem: Problem) -> list[str]:
    """Return every decision of every statement."""
    return sorted({name for nest in problem.nests for name in names_of(problem, nest)})


def names_of(problem: Problem, nest: NestProblem) -> set[str]:
    """Return all names of a statement's decisions under any mapping, including those of partitions for threads."""
    registers = dict(problem.registers)
    spaces = [Space(nest.statement, option, registers, {}) for option in nest.options]
    found = {mapping_of(nest.statement), *(name for space in spaces for name in space.names())}
    if problem.threads > 1:
        return found
    return found - {parallel_of(nest.statement, a.name) for o in nest.options for a in o.axes}


def _resolve_word(word: str, value: int, known: list[str]) -> tuple[str, int]:
    if word in known:
        return word, value
    for spelling, meant in ((word, value), *_reverse_order(word, value)):
        found = [name for name in known if _is_name_of(spelling.casefold(), name.casefold())]
        exact = [name for name in found if _is_name_of(spelling, name)]
        match exact or found:
            case [name]:
                return name, meant
            case []:
                continue
            case several:
                raise UsageProblem(_ambiguous(word, several))
    raise UsageProblem(unknown(word, known))


def _is_name_of(word: str, name: str) -> bool:
    """Return whether a word names a decision, with or without the statement. `tile` is another name of `block`."""
    parts = ["block" if part == "tile" else part for part in word.split(".")]
    return ".".join(parts) in (name, name.partition(".")[2])


def _reverse_order(word: str, value: int) -> Iterable[tuple[str, int]]:
    """Yield the same order of two axes, written with the axes exchanged."""
    parts = word.split(".")
    if len(parts) >= 3 and parts[-3] in ("order", "sweep"):
        yield ".".join([*parts[:-2], parts[-1], parts[-2]]), 1 - value if value in (0, 1) else value


def _check_value(name: str, value: int) -> None:
    """Check that some mapping allows this value of a decision. Raises: UsageProblem."""
    domain = domain_of(name)
    if domain is not None and value not in domain:
        said = f"`{name}` is {domain}, not {value}"
        raise UsageProblem.of("fix-value", said, help=domain.meaning)


def _ambiguous(word: str, names: list[str]) -> Diagnostic:
    return Diagnostic(
        "fix-ambiguous",
        f"`{word}` is a decision of several statements",
        help=f"write {' or '.join(f'`{name}`' for name in names[:SHOWN])}",
    )


def unknown(name: str, known: list[str]) -> Diagnostic:
    """Return the error that no decision has this name."""
    full = name if name.startswith("nest") else f"nest0.{name}"
    near = get_close_matches(full.replace(".tile.", ".block."), known, n=1, cutoff=0.5)
    help_ = f"did you mean `{near[0]}`?" if near else None
    if ".parallel." in full and not any(".parallel." in other for other in known):
        help_ = "axes are partitioned for several threads only: `--threads 2`, from Python `threads=2`"
    return Diagnostic(
        "fix-unknown",
        f"there is no decision `{name}`",
        notes=(f"known: {', '.join(known[:SHOWN])}{' and others' if len(known) > SHOWN else ''}",),
        help=help_,
    )
