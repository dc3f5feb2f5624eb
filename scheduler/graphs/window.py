"""Decide a window of a plan by CP-SAT: groups, order and cache residence together.

Everything outside the window is fixed: tensors from before it, tensors needed after it, and the memory of
both. Times are places in the order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from isamap.source.records import dataclass, field

SCALE = 64
"""The bytes of a unit of memory in the model, of which all sizes are multiples; costs are in tenths of a ns."""
TENTHS = 10
SEED = 0
CHOICE_SHARE = 0.3
"""Of the effort, for the choice of groups alone."""


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """A group as a window sees it: its root, its reads, and its cost. Units: nanoseconds, bytes."""

    root: int
    inner: tuple[int, ...]
    reads: tuple[str, ...]
    cost_ns: float
    workspace_bytes: int = 0
    passing_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NearTensor:
    """A tensor that the window writes or reads.

    `maker` is the root that writes it, None if it exists before. `stays` says that it is read after the
    window. `near` is None if the window decides whether it stays in the near cache. Units: bytes,
    nanoseconds.
    """

    name: str
    room_bytes: int
    near_bytes: int
    far_ns: float
    maker: int | None
    stays: bool
    near: bool | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A window to be decided: `start` are choices by number in a possible order.

    Each node of `needed` must be in at least one group, which follows from the reads. `start_far_ns` is the
    cost of far reads in that order. `room_bytes` and `near_bytes` are the capacity that the remaining plan
    leaves of the workspace and of the near cache.
    """

    choices: tuple[GroupChoice, ...]
    held: tuple[NearTensor, ...]
    needed: tuple[int, ...]
    start: tuple[int, ...]
    room_bytes: int
    near_bytes: int
    start_far_ns: float
    effort: float
    limit_s: float


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Choices in order, the tensors that stay near, and a lower bound on the cost. Units: nanoseconds.

    `near` is None if the start is the answer, with its near tensors.
    """

    order: tuple[int, ...]
    near: tuple[str, ...] | None
    bound_ns: float
    status: str


@dataclass(slots=True)
class WindowModel:
    """The variables: the selected choices, the position of each root, and the tensors that stay near."""

    window: Window
    model: Any
    chosen: list[Any] = field(default_factory=list[Any])
    runs: dict[int, Any] = field(default_factory=dict[int, Any])
    when: dict[int, Any] = field(default_factory=dict[int, Any])
    near: dict[str, Any] = field(default_factory=dict[str, Any])
    ends: dict[str, Any] = field(default_factory=dict[str, Any])
    costs: list[Any] = field(default_factory=list[Any])

    @property
    def places(self) -> int:
        """The number of positions: no order has more groups."""
        return len(self.runs)

    @property
    def roots(self) -> tuple[int, ...]:
        """Nodes that may be roots, in their order."""
        return tuple(sorted(self.runs))


def decide(window: Window) -> WindowPlan | None:
    """Return the best plan that is found within the window's effort, or None.

    Which groups is decided first, without their order and their room: that is soon done, and a bound. Where
    the start costs no more, it is the best; else the whole question is asked, with that answer as its hint.
    """
    from ortools.sat.python import cp_model

    stop = time.monotonic() + window.limit_s
    choice = WindowModel(window, cp_model.CpModel())
    _choose(choice)
    solver, status = _solve_model(choice, CHOICE_SHARE * window.effort, CHOICE_SHARE * window.limit_s)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    bound = math.ceil(solver.best_objective_bound - 1e-6) if found else 0
    if found and bound >= sum(round(window.choices[n].cost_ns * TENTHS) for n in window.start) + round(
        window.start_far_ns * TENTHS
    ):
        return WindowPlan(window.start, None, bound / TENTHS, "OPTIMAL")
    hint = [n for n, var in enumerate(choice.chosen) if solver.value(var)] if found else window.start
    made = WindowModel(window, cp_model.CpModel())
    _choose(made)
    _order(made)
    _hold(made)
    made.model.add(sum(made.costs) >= bound)
    _hint(made, hint if window.start_far_ns == 0 else window.start)
    solver, status = _solve_model(made, window.effort, max(0.01, stop - time.monotonic()))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    taken = [n for n, var in enumerate(made.chosen) if solver.value(var)]
    taken.sort(key=lambda n: solver.value(made.when[window.choices[n].root]))
    near = tuple(name for name, var in made.near.items() if solver.value(var))
    word = "OPTIMAL" if status == cp_model.OPTIMAL else "FEASIBLE"
    return WindowPlan(tuple(taken), near, max(bound, solver.best_objective_bound) / TENTHS, word)


def _solve_model(made: WindowModel, effort: float, limit_s: float) -> tuple[Any, Any]:
    """Return the solver after its search for the least cost, and its status."""
    from ortools.sat.python import cp_model

    made.model.minimize(sum(made.costs))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # several under a wall clock answer differently each time
    solver.parameters.random_seed = SEED
    solver.parameters.linearization_level = 2  # the choice of groups is all but linear: 35 ms, else 10 s
    solver.parameters.max_deterministic_time = effort
    solver.parameters.max_time_in_seconds = limit_s
    return solver, solver.solve(made.model)


def _choose(made: WindowModel) -> None:
    """Add the constraints that each needed root has exactly one group and that all read tensors are written."""
    model = made.model
    by_root: dict[int, list[Any]] = {}
    for choice in made.window.choices:
        var = model.new_bool_var("")
        made.chosen.append(var)
        by_root.setdefault(choice.root, []).append(var)
        made.costs.append(round(choice.cost_ns * TENTHS) * var)
    for root, own in by_root.items():
        made.runs[root] = model.new_bool_var("")
        model.add(sum(own) == made.runs[root])
    for node in made.window.needed:  # which the relaxation does not see by itself
        pairs = zip(made.window.choices, made.chosen, strict=True)
        model.add_at_least_one(v for c, v in pairs if node == c.root or node in c.inner)
    for held in made.window.held:
        if held.maker is None:
            continue
        if held.stays:
            model.add(made.runs[held.maker] == 1)
        readers: dict[int, list[Any]] = {}
        for choice, var in zip(made.window.choices, made.chosen, strict=True):
            if held.name in choice.reads:
                readers.setdefault(choice.root, []).append(var)
        for own in readers.values():
            model.add(sum(own) <= made.runs[held.maker])


def _order(made: WindowModel) -> None:
    """Give each selected root a position of its own, after the roots whose results it reads."""
    model = made.model
    for root in made.roots:
        made.when[root] = model.new_int_var(0, made.places - 1, "")
    model.add_no_overlap(
        [model.new_optional_fixed_size_interval_var(made.when[r], 1, made.runs[r], "") for r in made.roots]
    )
    makers = {held.name: held.maker for held in made.window.held if held.maker is not None}
    for choice, var in zip(made.window.choices, made.chosen, strict=True):
        for maker in {makers[name] for name in choice.reads if name in makers}:
            model.add(made.when[maker] < made.when[choice.root]).only_enforce_if(var)


def _hold(made: WindowModel) -> None:
    """Constrain tensors to be in memory from their writers to their last readers, within its capacity."""
    model, window = made.model, made.window
    room, near = _Room(made, window.room_bytes), _Room(made, window.near_bytes)
    for held in window.held:
        readers = [
            (c.root, v) for c, v in zip(window.choices, made.chosen, strict=True) if held.name in c.reads
        ]
        begin = 0 if held.maker is None else made.when[held.maker]
        runs = 1 if held.maker is None else made.runs[held.maker]
        end: Any = made.places
        if not held.stays:
            end = model.new_int_var(0, made.places, "")
            made.ends[held.name] = end
            if held.maker is not None:
                model.add(end > begin)
            for root, var in readers:
                model.add(end > made.when[root]).only_enforce_if(var)
        length = model.new_int_var(0, made.places, "")
        model.add(length == end - begin)
        room.add(begin, length, end, runs, held.room_bytes)
        if not held.far_ns:
            continue
        is_near = made.near.setdefault(held.name, model.new_bool_var(""))
        if held.near is not None:
            model.add(is_near == int(held.near))
        if held.maker is not None:
            model.add_implication(is_near, made.runs[held.maker])
        near.add(begin, length, end, is_near, held.near_bytes)
        for root in {root for root, _ in readers}:
            far = model.new_bool_var("")
            model.add(far >= sum(v for r, v in readers if r == root) - is_near)
            made.costs.append(round(held.far_ns * TENTHS) * far)
    for root in made.roots:
        own = [(c, v) for c, v in zip(window.choices, made.chosen, strict=True) if c.root == root]
        for memory, sizes in (
            (room, [c.workspace_bytes for c, _ in own]),
            (near, [c.passing_bytes for c, _ in own]),
        ):
            for size in set(sizes) - {0}:
                runs = model.new_bool_var("")
                model.add(sum(v for (_, v), s in zip(own, sizes, strict=True) if s == size) == runs)
                memory.add(made.when[root], 1, made.when[root] + 1, runs, size)
    room.close()
    near.close()


class _Room:
    """The lifetimes in a memory, in units that are rounded so that a solution always fits."""

    def __init__(self, made: WindowModel, capacity_bytes: int) -> None:
        self.made, self.capacity = made, capacity_bytes // SCALE
        self.intervals: list[Any] = []
        self.demands: list[int] = []

    def add(self, begin: Any, length: Any, end: Any, runs: Any, size_bytes: int) -> None:
        """Add a live range."""
        if size_bytes:
            self.intervals.append(self.made.model.new_optional_interval_var(begin, length, end, runs, ""))
            self.demands.append(min(-(-size_bytes // SCALE), self.capacity + 1))

    def close(self) -> None:
        """Constrain the live tensors to the available memory."""
        if self.intervals:
            self.made.model.add_cumulative(self.intervals, self.demands, max(0, self.capacity))


def _hint(made: WindowModel, order: Sequence[int]) -> None:
    taken = set(order)
    roots = [made.window.choices[n].root for n in order]
    for number, var in enumerate(made.chosen):
        made.model.add_hint(var, number in taken)
    for root, var in made.runs.items():
        made.model.add_hint(var, root in roots)
        if root in roots:
            made.model.add_hint(made.when[root], roots.index(root))
