"""Prices of a nest in place as decided by hand, and of a hundred decisions beside what their loops cost."""

from __future__ import annotations

from itertools import islice
from random import Random

from properties.exhaustive import every_decision
from properties.tree_price import tree_ns

from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem
from isamap.scheduler import AnalyticModel
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import Tiling, tile
from isamap.scheduler.nests.nest_building import build_nest


def of_blocks(problem: Problem, **decided: int) -> tuple[Tiling, dict[str, int]]:
    """Register blocks of 4 x 4 issues, all read in place and nothing cut, but for what is decided."""
    (option,) = problem.nests[0].options
    space = Space(0, option, dict(problem.registers), {})
    names = {"nest0.unroll.n": 4, "nest0.unroll.m": 4}
    names |= {f"nest0.block.{axis.name}": axis.extent for axis in option.axes}
    names |= {name: 0 for name, _, _ in (*space.order_pairs(), *space.sweep_pairs())}
    names |= {f"nest0.stage.{operand.name}": 0 for operand in option.operands}
    names |= {f"nest0.{name.replace('_', '.')}": value for name, value in decided.items()}
    return tile(space), names


def sampled_prices(problem: Problem) -> list[tuple[float, float]]:
    """Of some decisions what their loops cost, counted anew, and what the model says. Units: nanoseconds."""
    nest = problem.nests[0]
    (option,) = nest.options
    cost = AnalyticModel().expression(problem, nest, option)
    space = Space(0, option, dict(problem.registers), {})
    some = Random(1).sample(list(islice(every_decision(0, option, problem), 4000)), 100)
    return [(tree_ns(problem, option, build_nest(space, one)), float(evaluate(cost, one))) for one in some]
