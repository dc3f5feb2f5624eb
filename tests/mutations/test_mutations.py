"""Wrong matchers, transformations and lowerings: each is noticed by a check that the right ones pass."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from mutations.checks import (
    guards_made_explicit_change_nothing,
    mappings_are_those_of_the_definition,
    mappings_compute_what_the_kernel_does,
    programs_compute_what_the_kernel_does,
)

from isamap.ir import OPS, Const, Index, Read
from isamap.ir.index import ZERO
from isamap.match import AxisGroup
from isamap.match.exact import Sides
from isamap.match.unify import Binding

Check = Callable[[], bool]
CHECKS: tuple[Check, ...] = (
    mappings_are_those_of_the_definition,
    mappings_compute_what_the_kernel_does,
    guards_made_explicit_change_nothing,
    programs_compute_what_the_kernel_does,
)


@dataclass(frozen=True)
class Mutation:
    """`wrong` makes a wrong function of the right one; it takes the place of `where`, and `check` notices."""

    name: str
    where: str
    wrong: Callable[[Any], Any]
    check: Check = mappings_are_those_of_the_definition


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What was computed by right functions must not be found by wrong ones, nor the other way round."""
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path))
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("isamap."):
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_what_is_right_passes(check: Check) -> None:
    assert check()


def install(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, path = mutation.where.partition(":")
    holder: Any = importlib.import_module(module)
    *classes, name = path.split(".")
    for owner in classes:
        holder = getattr(holder, owner)
    monkeypatch.setattr(holder, name, mutation.wrong(getattr(holder, name)))


# --- wrong functions --------------------------------------------------------------------------------------

Wrong = Callable[[Any], Any]


def always(value: object) -> Wrong:
    return lambda _: lambda *args, **named: value


def saying(change: Callable[[Sides], Sides]) -> Wrong:
    """Conditions on other subscripts than those of the statement."""
    return lambda right: lambda *args: tuple(replace(c, sides=change(c.sides)) for c in right(*args))


def without(dropped: Callable[[Any], bool]) -> Wrong:
    """All conditions but some."""
    return lambda right: lambda *args: tuple(c for c in right(*args) if not dropped(c))


def steps(change: Callable[[int, int], int]) -> Callable[[Index], Index]:
    """A subscript whose steps, counted from 0, are changed."""
    return lambda index: Index(tuple((m, change(n, c) if m else c) for n, (m, c) in enumerate(index.terms)))


def wanted(change: Callable[[Index], Index]) -> Callable[[Sides], Sides]:
    return lambda sides: Sides(sides.given, tuple(change(i) for i in sides.wanted))


def commuting(*names: str) -> Wrong:
    """The table of operations, of which only these commute."""
    return lambda _: {n: replace(op, commutative=n in names) for n, op in OPS.items()}


def each_a_class(right: Any) -> Any:
    return lambda *args: tuple((a,) for members in right(*args) for a in members)


def all_one_class(right: Any) -> Any:
    return lambda *args: (tuple(a for members in right(*args) for a in members),)


def in_two_places(right: Any) -> Any:
    """Kernel axes that run on one instruction axis run on the others as well."""

    def groups_of(*args: Any) -> Any:
        groups = right(*args)
        every = tuple(x for g in groups for x in g.kernel_axes)
        return tuple(AxisGroup(g.instruction_axes, every) for g in groups)

    return groups_of


def lanes(change: Callable[[int], int]) -> Wrong:
    def wrong(right: Any) -> Any:
        def space_of(*args: Any) -> Any:
            space = right(*args)
            return replace(space, lengths=tuple((a, n and change(n)) for a, n in space.lengths))

        return space_of

    return wrong


def binding(change: Callable[[Binding], Binding]) -> Wrong:
    return lambda right: lambda *args: (tuple(map(change, found)) for found in right(*args))


def without_fill(b: Binding) -> Binding:
    return replace(b, subject=replace(b.subject, fill=None)) if isinstance(b.subject, Read) else b


def binding_what_comes_first(_: Any) -> Any:
    def bind(new: Binding, bound: tuple[Binding, ...]) -> Iterator[tuple[Binding, ...]]:
        yield bound if any(b.name == new.name for b in bound) else (*bound, new)

    return bind


def without_guard(right: Any) -> Any:
    def pairings(pattern: Any, statement: Any, mode: Any) -> Any:
        return right(pattern, replace(statement, assign=replace(statement.assign, guard=None)), mode)

    return pairings


def of_any_type(_: Any) -> Any:
    return lambda pattern, statement: pattern.statement.assign.op == statement.assign.op


def of_any_operation(_: Any) -> Any:
    return lambda p, s: p.target.dtype == s.accumulator and p.value.dtype == s.assign.value.dtype


def without_where(right: Any) -> Any:
    return lambda instruction: right(replace(instruction, where=()))


def at_the_start(right: Any) -> Any:
    """Blocks that begin at the first iteration, and nowhere else."""
    return lambda *args: (said := right(*args)) and said.replace(">= 0", "= 0")


def filled_with_zero(right: Any) -> Any:
    return lambda self, read, *args: right(self, replace(read, fill=Const(0.0, read.dtype)), *args)


def of_nothing(right: Any) -> Any:
    return lambda buffer, offset, count: right(buffer, offset, ZERO)


MATCH = "isamap.match."
FIND = f"{MATCH}enumerate:"
KEEPS_STEP = steps(lambda _, c: (c > 0) - (c < 0))
KEEPS_SIZE = steps(lambda _, c: abs(c))
TURNS_FIRST = steps(lambda n, c: c if n else -c)

MATCHING = (
    Mutation("drop a stride", f"{FIND}conditions", saying(wanted(KEEPS_STEP))),
    Mutation("drop a flipped sign", f"{FIND}conditions", saying(wanted(KEEPS_SIZE))),
    Mutation("flip an index", f"{FIND}conditions", saying(wanted(TURNS_FIRST))),
    Mutation("ignore the inputs", f"{FIND}conditions", without(lambda c: c.operand != "c")),
    Mutation(
        "ignore the output's indexing",
        f"{FIND}conditions",
        without(lambda c: c.operand == "c" and c.clause == "operand-elements"),
    ),
    Mutation("write an element twice", f"{FIND}conditions", without(lambda c: c.clause == "output-elements")),
    Mutation("ignore a precondition", f"{FIND}can_be_met", always(True)),
    Mutation("ignore what bounds a parameter", f"{MATCH}preconditions:_largest", without_where),
    Mutation("ignore the result's type", f"{FIND}heads_agree", of_any_type),
    Mutation("ignore the reduction", f"{FIND}heads_agree", of_any_operation),
    Mutation("take any cast for exact", f"{MATCH}unify:converts_exactly", always(True)),
    Mutation("drop commutativity", f"{MATCH}unify:OPS", commuting()),
    Mutation("let differences commute", f"{MATCH}unify:OPS", commuting("add", "mul", "sub")),
    Mutation("count images under symmetries", f"{MATCH}symmetry:Seen.is_new", always(True)),
    Mutation("take every renaming for a symmetry", f"{MATCH}symmetry:_shape", always("")),
    Mutation("never cut an axis", f"{FIND}_classes", each_a_class),
    Mutation("cut over all axes", f"{FIND}_classes", all_one_class),
    Mutation("let an axis be in two places", f"{FIND}_groups", in_two_places),
    Mutation("leave an axis empty", f"{FIND}_can_be_filled", always(True)),
    Mutation("count axes of one element", f"{FIND}unit_axes", always(())),
    Mutation("try one order of fusion", f"{MATCH}exact:_orders", lambda right: lambda g: islice(right(g), 1)),
    Mutation("look at the first block", f"{MATCH}exact:_Writer._linked", at_the_start),
    Mutation("forget the last lane", f"{FIND}space_of", lanes(lambda n: n - 1)),
    Mutation("add a lane", f"{FIND}space_of", lanes(lambda n: n + 1)),
    Mutation("decide nothing exactly", f"{MATCH}validity:decide", always("holds")),
    Mutation("take all for linear", f"{MATCH}validity:_is_spanned", always(True)),
    Mutation("take all for digits", f"{MATCH}validity:tells_apart", always(True)),
    Mutation("treat a guard as absent", f"{FIND}pairings", without_guard),
    Mutation("treat a fill as absent", f"{FIND}unify", binding(without_fill)),
    Mutation("bind an operand once", f"{MATCH}unify:_bind", binding_what_comes_first),
    Mutation("pair in any order when fixed", f"{FIND}islice", lambda _: lambda found, count: found),
)

PERFORMING = (
    Mutation(
        "swap an index",
        f"{FIND}unify",
        binding(lambda b: replace(b, pattern=b.pattern[::-1])),
        mappings_compute_what_the_kernel_does,
    ),
    Mutation(
        "perform a window with another stride",
        f"{FIND}conditions",
        saying(wanted(KEEPS_STEP)),
        mappings_compute_what_the_kernel_does,
    ),
    Mutation(
        "add up two lanes in one element",
        f"{FIND}conditions",
        without(lambda c: c.clause == "output-elements"),
        mappings_compute_what_the_kernel_does,
    ),
    Mutation(
        "pad a maximum with zero",
        "isamap.simulate.issue:neutral_fills",
        always({}),
        mappings_compute_what_the_kernel_does,
    ),
)

TRANSFORMING = (
    Mutation(
        "take zero for every identity",
        "isamap.transform.guards:identity_of",
        lambda _: lambda op, dtype: Const(0.0, dtype),
        guards_made_explicit_change_nothing,
    ),
    Mutation(
        "drop a guard",
        "isamap.transform.guards:_guarded_value",
        lambda _: lambda *args: args[-1].assign.value,
        guards_made_explicit_change_nothing,
    ),
    Mutation(
        "fill with zero",
        "isamap.transform.guards:_Builder._padded",
        filled_with_zero,
        guards_made_explicit_change_nothing,
    ),
)

LOWERING = (
    Mutation(
        "skip a tail", "isamap.lower.nest:_Nest._rest", always(None), programs_compute_what_the_kernel_does
    ),
    Mutation(
        "take every extent for a multiple",
        "isamap.lower.nest:divides",
        always(True),
        programs_compute_what_the_kernel_does,
    ),
    Mutation(
        "leave padded lanes as they are",
        "isamap.lower.staging:Fill",
        of_nothing,
        programs_compute_what_the_kernel_does,
    ),
    Mutation(
        "forget the identity of padded lanes under max",
        "isamap.plan.build:_sums_can_be_padded",
        always(True),
        programs_compute_what_the_kernel_does,
    ),
    Mutation(
        "mask nothing",
        "isamap.lower.nest:partial_axes",
        always({}),
        programs_compute_what_the_kernel_does,
    ),
)

MUTATIONS = (*MATCHING, *PERFORMING, *TRANSFORMING, *LOWERING)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_what_is_wrong_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    install(mutation, monkeypatch)
    assert not mutation.check()
