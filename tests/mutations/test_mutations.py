"""Wrong matchers, transformations and lowerings: each is noticed by a check that the right ones pass."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mutations.checks import (
    chains_touch_what_is_requested,
    guards_made_explicit_change_nothing,
    mappings_are_those_of_the_definition,
    mappings_compute_what_the_kernel_does,
    programs_compute_what_the_kernel_does,
)
from mutations.wrong import (
    Wrong,
    all_of_them,
    all_one_class,
    always,
    at_the_start,
    binding,
    commuting,
    each_a_class,
    filled_with_zero,
    first_only,
    in_two_places,
    lanes,
    of_any_operation,
    of_any_type,
    of_nothing,
    of_one_read,
    saying,
    steps,
    transposed,
    unguarded,
    what_comes_first,
    without,
    without_fill,
    without_guard,
    without_where,
    zero,
    zeros,
)

Check = Callable[[], bool]
CHECKS: tuple[Check, ...] = (
    chains_touch_what_is_requested,
    mappings_are_those_of_the_definition,
    mappings_compute_what_the_kernel_does,
    guards_made_explicit_change_nothing,
    programs_compute_what_the_kernel_does,
)


@dataclass(frozen=True)
class Mutation:
    """`wrong` takes the place of what is found at `where`, and `check` notices."""

    name: str
    where: str
    wrong: Wrong
    check: Check = mappings_are_those_of_the_definition

    def install(self, patch: pytest.MonkeyPatch) -> None:
        module, _, path = self.where.partition(":")
        *owners, name = path.split(".")
        holder: Any = importlib.import_module(module)
        for owner in owners:
            holder = getattr(holder, owner)
        right = getattr(holder, name)

        def wrong(*args: Any, **named: Any) -> Any:
            return self.wrong(right, *args, **named)

        patch.setattr(holder, name, wrong if callable(right) else self.wrong(right))


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


MATCH = "isamap.match."
FIND = f"{MATCH}mappings.enumerate:"
KEEPS_SIGN = steps(lambda _, c: (c > 0) - (c < 0))
KEEPS_SIZE = steps(lambda _, c: abs(c))
TURNS_FIRST = steps(lambda n, c: c if n else -c)

MATCHING = (
    Mutation("drop a stride", f"{FIND}conditions", saying(KEEPS_SIGN)),
    Mutation("drop a flipped sign", f"{FIND}conditions", saying(KEEPS_SIZE)),
    Mutation("flip an index", f"{FIND}conditions", saying(TURNS_FIRST)),
    Mutation("ignore the inputs", f"{FIND}conditions", without(lambda c: c.operand != "c")),
    Mutation(
        "ignore the output's indexing",
        f"{FIND}conditions",
        without(lambda c: c.operand == "c" and c.clause == "operand-elements"),
    ),
    Mutation("write an element twice", f"{FIND}conditions", without(lambda c: c.clause == "output-elements")),
    Mutation("let two reads disagree", f"{FIND}conditions", without(lambda c: c.clause == "operand-twice")),
    Mutation("let two reads never agree", f"{MATCH}mappings.validity:subscripts_to_agree", always(None)),
    Mutation(
        "take all that is read twice for one", f"{MATCH}mappings.validity:subscripts_to_agree", always(())
    ),
    Mutation("take two reads for linear", f"{MATCH}mappings.validity:_is_spanned_between", always(True)),
    Mutation("read an operand at one subscript", f"{FIND}unify", of_one_read),
    Mutation("ignore a precondition", f"{FIND}can_be_met", always(True)),
    Mutation("ignore what bounds a parameter", f"{MATCH}mappings.exact:_largest", without_where),
    Mutation("ignore the result's type", f"{FIND}heads_agree", of_any_type),
    Mutation("ignore the reduction", f"{FIND}heads_agree", of_any_operation),
    Mutation("take any cast for exact", f"{MATCH}patterns.unify:first_cast", always("exact")),
    Mutation("drop commutativity", f"{MATCH}patterns.unify:OPS", commuting()),
    Mutation("let differences commute", f"{MATCH}patterns.unify:OPS", commuting("add", "mul", "sub")),
    Mutation("count images under symmetries", f"{MATCH}mappings.mapping:KnownMappings.is_new", always(True)),
    Mutation("take every renaming for a symmetry", f"{MATCH}mappings.mapping:_shape", always("")),
    Mutation("never cut an axis", f"{FIND}_classes", each_a_class),
    Mutation("cut over all axes", f"{FIND}_classes", all_one_class),
    Mutation("let an axis be in two places", f"{FIND}_groups", in_two_places),
    Mutation("leave an axis empty", f"{FIND}_can_be_filled", always(True)),
    Mutation("count axes of one element", f"{FIND}unit_axes", always(())),
    Mutation("try one order of fusion", f"{MATCH}mappings.exact:_orders", first_only),
    Mutation("look at the first block", f"{MATCH}mappings.exact:_Writer._link_lanes", at_the_start),
    Mutation("forget the last lane", f"{FIND}space_of", lanes(lambda n: n - 1)),
    Mutation("add a lane", f"{FIND}space_of", lanes(lambda n: n + 1)),
    Mutation("decide nothing exactly", f"{MATCH}mappings.exact:decide", always("holds")),
    Mutation("take all for linear", f"{MATCH}mappings.validity:_is_spanned", always(True)),
    Mutation("take all for digits", f"{MATCH}mappings.validity:tells_apart", always(True)),
    Mutation("treat a guard as absent", f"{FIND}pairings", without_guard),
    Mutation("treat a fill as absent", f"{FIND}unify", binding(without_fill)),
    Mutation("bind an operand once", f"{MATCH}patterns.unify:_bind", what_comes_first),
    Mutation("pair in any order when fixed", f"{FIND}islice", all_of_them),
)

PERFORMING = (
    Mutation(
        "swap an index",
        f"{FIND}unify",
        binding(transposed),
        mappings_compute_what_the_kernel_does,
    ),
    Mutation(
        "perform a window with another stride",
        f"{FIND}conditions",
        saying(KEEPS_SIGN),
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
        zero,
        guards_made_explicit_change_nothing,
    ),
    Mutation(
        "drop a guard",
        "isamap.transform.guards:_guarded_value",
        unguarded,
        guards_made_explicit_change_nothing,
    ),
    Mutation(
        "fill with zero",
        "isamap.transform.guards:_Builder._pad_read",
        filled_with_zero,
        guards_made_explicit_change_nothing,
    ),
)

LOWERING = (
    Mutation("skip a tail", "isamap.lower.expand:_rest", always(None), programs_compute_what_the_kernel_does),
    Mutation(
        "take every extent for a multiple",
        "isamap.lower.expand:is_multiple",
        always(True),
        programs_compute_what_the_kernel_does,
    ),
    Mutation(
        "leave padded lanes as they are",
        "isamap.lower.copies:Fill",
        of_nothing,
        programs_compute_what_the_kernel_does,
    ),
    Mutation(
        "forget the identity of padded lanes under max",
        f"{MATCH}tiles.operand_tiles:fills_behind",
        zeros,
        programs_compute_what_the_kernel_does,
    ),
    Mutation(
        "mask nothing",
        "isamap.lower.register_block:partial_axes",
        always({}),
        programs_compute_what_the_kernel_does,
    ),
)

MOVING = (
    Mutation(
        "read behind a part",
        "isamap.match.operand_loads.load_search:reads_past",
        always(False),
        chains_touch_what_is_requested,
    ),
    Mutation(
        "write behind a part",
        "isamap.match.operand_loads.store_search:reads_past",
        always(False),
        chains_touch_what_is_requested,
    ),
)

MUTATIONS = (*MOVING, *MATCHING, *PERFORMING, *TRANSFORMING, *LOWERING)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_what_is_wrong_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.install(monkeypatch)
    assert not mutation.check()
