"""What is proved of random mappings is so when they are performed; corrupted ones are not proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from random import Random

from conftest import EXAMPLES
from properties.random_mappings import Trial, trials, verdict

from isamap.ir import Call, Cast, Expr, Index, Read
from isamap.match import AxisGroup, Mapping
from isamap.match.patterns.unify import Binding
from isamap.match.proofs.proof import prove


def proof_of(trial: Trial) -> str:
    return prove(trial.pattern, trial.subject.statement, trial.mapping, trial.subject.known).status


def test_most_random_mappings_are_proved_and_then_compute_what_the_kernel_does() -> None:
    counts: Counter[str] = Counter()
    for seed in range(EXAMPLES // 4):
        for trial in trials(seed):
            proof = proof_of(trial)
            counts[proof] += 1
            assert proof == "unproved" or verdict(trial) == "equal", trial.story()
    assert counts["proved"] > 0.8 * counts.total()


def test_a_corrupted_mapping_that_computes_something_else_is_never_proved() -> None:
    caught = 0
    for seed in range(EXAMPLES // 4):
        for trial in trials(seed):
            for corrupted in corruptions(trial, Random(seed)):
                if verdict(corrupted) != "equal":
                    caught += 1
                    assert proof_of(corrupted) == "unproved", corrupted.story()
    assert caught > EXAMPLES


def corruptions(trial: Trial, random: Random) -> Iterator[Trial]:
    """Yield the trial with axes elsewhere, operands exchanged, a step changed, or an axis left out."""
    mapping = trial.mapping
    changes = [*_exchanged(mapping), *_moved(mapping, trial), *_stepped(mapping)]
    for changed in random.sample(changes, min(3, len(changes))):
        yield replace(trial, mapping=changed, cut=replace(trial.cut, groups=changed.groups))


def _exchanged(mapping: Mapping) -> Iterator[Mapping]:
    """Yield two operands, or the kernel axes of two groups, exchanged."""
    for one, other in permutations(range(len(mapping.bindings)), 2):
        bindings = list(mapping.bindings)
        bindings[one] = replace(bindings[one], subject=mapping.bindings[other].subject)
        bindings[other] = replace(bindings[other], subject=mapping.bindings[one].subject)
        if bindings[one].subject.dtype == bindings[other].subject.dtype:
            yield replace(mapping, bindings=tuple(bindings))
    for one, other in permutations(range(len(mapping.groups)), 2):
        groups = list(mapping.groups)
        groups[one] = replace(groups[one], kernel_axes=mapping.groups[other].kernel_axes)
        groups[other] = replace(groups[other], kernel_axes=mapping.groups[one].kernel_axes)
        yield replace(mapping, groups=tuple(groups))


def _moved(mapping: Mapping, trial: Trial) -> Iterator[Mapping]:
    """Yield a kernel axis from a loop around onto an instruction axis, empty or not."""
    inside = {k for g in mapping.groups for k in g.kernel_axes}
    for axis in (a.name for a in trial.subject.statement.axes if a.name not in inside):
        for n, group in enumerate(mapping.groups):
            fuller = replace(group, kernel_axes=(*group.kernel_axes, axis))
            yield replace(mapping, groups=(*mapping.groups[:n], fuller, *mapping.groups[n + 1 :]))
        for lane in mapping.empty:
            rest = tuple(e for e in mapping.empty if e != lane)
            yield replace(mapping, groups=(*mapping.groups, AxisGroup((lane,), (axis,))), empty=rest)


def _stepped(mapping: Mapping) -> Iterator[Mapping]:
    """Yield a subscript of what an operand stands for, one further."""
    for n, binding in enumerate(mapping.bindings):
        subject = _shifted(binding.subject)
        if subject != binding.subject:
            changed: Binding = replace(binding, subject=subject)
            yield replace(mapping, bindings=(*mapping.bindings[:n], changed, *mapping.bindings[n + 1 :]))


def _shifted(expr: Expr) -> Expr:
    match expr:
        case Read(_, index) if index:
            return replace(expr, index=(*index[:-1], index[-1] + Index.of(1)))
        case Call(_, args):
            return replace(expr, args=(_shifted(args[0]), *args[1:]))
        case Cast(value):
            return replace(expr, value=_shifted(value))
        case _:
            return expr
