"""The CP-SAT model of one statement: its decisions as literals, its costs as terms, one option selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from isamap.scheduler.deciding.choices import Choice, Way, choices_of
from isamap.scheduler.deciding.orders import canonical
from isamap.scheduler.deciding.space import Assignment, RegisterBlock
from isamap.scheduler.search.candidates import Candidate
from isamap.scheduler.translation.constraints import limit
from isamap.scheduler.translation.linear_terms import Literals, imply
from isamap.scheduler.translation.translate import Translator
from isamap.source.records import dataclass

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from isamap.scheduler.translation.linear_terms import Literal


@dataclass(frozen=True, slots=True)
class OpenOptionModel:
    """An option that may still win, with one of its schedules, and the register blocks that may be better.

    Units: `floors_ns`, one per block, in nanoseconds.
    """

    start: Candidate
    blocks: tuple[RegisterBlock, ...]
    floors_ns: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class OptionModel:
    """An option in a model: the literal that selects it, and its decisions."""

    contender: OpenOptionModel
    selected: cp_model.IntVar
    literals: Literals


@dataclass(frozen=True, slots=True)
class NestModel:
    """The whole model. Costs in it are nanoseconds times `scale`, rounded down."""

    model: cp_model.CpModel
    options: tuple[OptionModel, ...]
    scale: float


def build_model(
    contenders: Sequence[OpenOptionModel], best_ns: float, resolution: int, without: Sequence[Candidate] = ()
) -> NestModel:
    """Return a model whose solutions cost at most `best_ns` and are not in `without`.

    It is hinted with the first contender's schedule. Raises: TooLarge if `resolution` steps for `best_ns`
    make terms too large.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    scale = resolution / best_ns
    objective = model.new_int_var(0, resolution, "cost")
    options: list[OptionModel] = []
    for number, contender in enumerate(contenders):
        selected = model.new_bool_var(f"option{number}")
        picked = [model.new_bool_var("") for _ in contender.blocks]
        literals = _decision_literals(model, contender, picked)
        cap_ns = max(best_ns, contender.start.cost_ns)
        cost = Translator(model, literals, scale, cap_ns).translate(contender.start.option.cost)
        own = model.new_int_var(cost.low, max(cost.high, resolution), "")
        model.add(own >= cost.expr)
        floors = [int(min(floor, best_ns) * scale) for floor in contender.floors_ns]
        model.add(own >= sum(floor * literal for floor, literal in zip(floors, picked, strict=True)))
        imply(model, selected, objective >= own)
        _hint(model, literals, selected, contender, is_best=number == 0)
        options.append(OptionModel(contender, selected, literals))
        for candidate in without:
            if candidate.option is contender.start.option:
                _exclude(model, selected, literals, candidate)
    model.add_exactly_one([option.selected for option in options])
    model.minimize(objective)
    return NestModel(model, tuple(options), scale)


def _exclude(
    model: cp_model.CpModel, selected: cp_model.IntVar, literals: Literals, candidate: Candidate
) -> None:
    """Constrain at least one decision to differ from the candidate."""
    normalised = canonical(candidate.option.space, candidate.assignment)
    others: list[Literal] = [selected.negated()]
    for choices in literals.joint.values():
        taken = [at for at, made in choices if all(normalised[n] == value for n, value in made.items())]
        if not taken:  # its register block is proven useless: the model cannot give it anyway
            return
        others += [literal.negated() for literal in taken]
    for name, values in literals.single.items():
        others.append(values[normalised[name]].negated())
    model.add_bool_or(others)


# --- decisions --------------------------------------------------------------------------------------------


def _decision_literals(
    model: cp_model.CpModel, contender: OpenOptionModel, picked: Sequence[cp_model.IntVar]
) -> Literals:
    """Return literals for all decisions of an option, with their constraints. `picked` are the block literals."""
    space, blocks = contender.start.option.space, contender.blocks
    model.add_exactly_one(picked)
    joint: dict[str, list[tuple[Literal, Assignment]]] = {}
    single: dict[str, Mapping[int, Literal]] = {}
    axes = {space.block(axis): axis.name for axis in space.axes}
    for choice in choices_of(space, blocks):
        name = choice.names[0]
        if name in axes:
            joint[axes[name]] = _way_literals(model, choice, picked)
        else:
            single[name] = _value_literals(model, [value for (value,) in choice.ways[0]])
    axis_of = {name: axis for axis, ways in joint.items() for name in ways[0][1]}
    unrolls = [{space.unroll(axis): block[axis.name] for axis in space.register_axes} for block in blocks]
    literals = Literals(joint, axis_of, single, tuple(zip(picked, unrolls, strict=True)))
    limit(model, literals, space.rules.clauses())
    return literals


def _way_literals(
    model: cp_model.CpModel, choice: Choice, picked: Sequence[cp_model.IntVar]
) -> list[tuple[Literal, Assignment]]:
    """Return one literal for each value of a choice. It excludes register blocks that do not allow the value."""
    kinds: dict[Way, list[int]] = {}
    for kind, ways in enumerate(choice.ways):
        for way in ways:
            kinds.setdefault(way, []).append(kind)
    found = {way: model.new_bool_var("") for way in kinds}
    alike: dict[tuple[int, ...], list[Literal]] = {}
    for way, own in kinds.items():
        alike.setdefault(tuple(own), []).append(found[way])
    for own, chosen in alike.items():
        fitting = [block for block, kind in zip(picked, choice.kinds, strict=True) if kind in own]
        if len(fitting) < len(picked):
            model.add(sum(chosen) <= sum(fitting))
    model.add_exactly_one(found.values())
    return [(literal, dict(zip(choice.names, way, strict=True))) for way, literal in found.items()]


def _value_literals(model: cp_model.CpModel, values: Sequence[int]) -> Mapping[int, Literal]:
    if tuple(values) == (0, 1):
        literal = model.new_bool_var("")
        return {1: literal, 0: literal.negated()}
    literals = {value: model.new_bool_var("") for value in values}
    model.add_exactly_one(literals.values())
    return literals


# --- hints and answers ------------------------------------------------------------------------------------


def _hint(
    model: cp_model.CpModel,
    literals: Literals,
    selected: cp_model.IntVar,
    contender: OpenOptionModel,
    *,
    is_best: bool,
) -> None:
    model.add_hint(selected, is_best)
    normalised = canonical(contender.start.option.space, contender.start.assignment)
    for choices in literals.joint.values():
        for literal, made in choices:
            model.add_hint(literal, all(normalised[name] == value for name, value in made.items()))
    for name, values in literals.single.items():
        for value, literal in values.items():
            if literal.index >= 0:  # the negation of a literal that is hinted itself
                model.add_hint(literal, normalised[name] == value)


def read_assignment(
    option: OptionModel, solver: cp_model.CpSolver | cp_model.CpSolverSolutionCallback
) -> dict[str, int]:
    """Return the decisions that a solution makes for an option."""
    found: dict[str, int] = {}
    for choices in option.literals.joint.values():
        for literal, made in choices:
            if solver.boolean_value(literal):
                found |= made
    for name, values in option.literals.single.items():
        found[name] = next(value for value, literal in values.items() if solver.boolean_value(literal))
    return found
