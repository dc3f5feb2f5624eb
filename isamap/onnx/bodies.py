"""Nodes with graphs inside, where it is known how often these run: they are lowered in place, once a turn.

`If` by the branch that a known condition takes, `Loop` and `Scan` turn by turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from isamap.models.terms import NotTaken
from isamap.onnx.applied import NeedsConstant
from isamap.onnx.graph import Graph, Node
from isamap.onnx.making import Value
from isamap.onnx.scope import Scope

MOST_TRIPS = 1000


class Lowers(Protocol):
    """What lowers nodes and graphs."""

    def lower(self, node: Node, scope: Scope) -> str:
        """Lowers one node; how. Raises: Refused."""
        ...

    def of_graph(self, graph: Graph, given: Sequence[Value | None], scope: Scope) -> list[Value]:
        """The results of a graph for such inputs, which sees the names around it. Raises: Refused."""
        ...


def _if(to: Lowers, node: Node, inputs: Sequence[Value | None], scope: Scope) -> Sequence[Value]:
    condition = inputs[0] if inputs else None
    if condition is None or condition.known is None:
        raise NeedsConstant(node.inputs[0] if node.inputs else "")
    branches = [node.attributes.get(name) for name in ("else_branch", "then_branch")]
    branch, other = branches if not condition.known.reshape(-1)[0] else branches[::-1]
    if not isinstance(branch, Graph) or not isinstance(other, Graph):
        raise NotTaken("it has no such branch")
    kinds = [[(port.dtype or port.said) for port in graph.outputs] for graph in (branch, other)]
    if len(branch.outputs) != len(node.outputs) or kinds[0] != kinds[1]:
        raise NotTaken(f"its branches give {kinds[0]} and {kinds[1]} for {len(node.outputs)} results")
    return to.of_graph(branch, (), scope)


def _loop(to: Lowers, node: Node, inputs: Sequence[Value | None], scope: Scope) -> Sequence[Value]:
    import numpy as np

    body = node.attributes.get("body")
    if not isinstance(body, Graph):
        raise NotTaken("it has no body")
    trips, condition, *state = (*inputs, None, None)[: max(len(inputs), 2)]
    if (trips is not None and trips.known is None) or (condition is not None and condition.known is None):
        raise NeedsConstant(node.inputs[0 if trips is not None and trips.known is None else 1])
    count = (
        int(trips.known.reshape(-1)[0]) if trips is not None and trips.known is not None else MOST_TRIPS + 1
    )
    goes_on = condition is None or condition.known is None or bool(condition.known.reshape(-1)[0])
    scanned: list[list[Value]] = [[] for _ in body.outputs[1 + len(state) :]]
    trip = 0
    while goes_on and trip < count:
        if trip >= MOST_TRIPS:
            raise NotTaken(f"it runs more than {MOST_TRIPS} times")
        given = [Value.of(np.asarray(trip, np.int64)), Value.of(np.asarray(True)), *state]
        found = to.of_graph(body, given, scope)
        if found[0].known is None:
            raise NotTaken("data decides how often it runs")
        goes_on = bool(found[0].known.reshape(-1)[0])
        kinds = [[v.dtype for v in values if v] for values in (state, found[1 : 1 + len(state)])]
        if kinds[0] != kinds[1]:
            raise NotTaken(f"an iteration makes {kinds[1]} of {kinds[0]}")
        state = list(found[1 : 1 + len(state)])
        for rows, value in zip(scanned, found[1 + len(state) :], strict=True):
            rows.append(value.shaped((1, *value.shape)))
        trip += 1
    if any(not rows for rows in scanned):
        raise NotTaken("it never runs, so that results have no sizes")
    stacked = [_applied(to, "Concat", rows, {"axis": 0}, scope) for rows in scanned]
    return [v for v in state if v is not None] + stacked


def _scan(to: Lowers, node: Node, inputs: Sequence[Value | None], scope: Scope) -> Sequence[Value]:
    body, attributes = node.attributes.get("body"), node.attributes
    if not isinstance(body, Graph) or scope.opsets.get("", 1) < 9:
        raise NotTaken("it has no body, or is of a version before 9")
    given = [value for value in inputs if value is not None]
    count = attributes.get("num_scan_inputs")
    if not isinstance(count, int) or not 0 < count <= len(given):
        raise NotTaken("it says not how many inputs are scanned")
    state, scanned = given[: len(given) - count], given[len(given) - count :]
    results = len(body.outputs) - len(state)
    in_axes, out_axes = (
        _numbers(node, f"scan_{n}_axes", k) for n, k in (("input", count), ("output", results))
    )
    back, ahead = (
        _numbers(node, f"scan_{n}_directions", k) for n, k in (("input", count), ("output", results))
    )
    trips = scanned[0].shape[in_axes[0]]
    if trips > MOST_TRIPS:
        raise NotTaken(f"it runs more than {MOST_TRIPS} times")
    rows: list[list[Value]] = [[] for _ in range(results)]
    for trip in range(trips):
        at = [
            _applied(to, "Gather", [x, _index(trips - 1 - trip if b else trip)], {"axis": a}, scope)
            for x, a, b in zip(scanned, in_axes, back, strict=True)
        ]
        found = to.of_graph(body, [*state, *at], scope)
        state = found[: len(state)]
        for row, value, axis, is_first in zip(rows, found[len(state) :], out_axes, ahead, strict=True):
            size = [*value.shape]
            size.insert(axis if axis >= 0 else axis + value.rank + 1, 1)
            row.insert(0 if is_first else len(row), value.shaped(size))
    stacked = [_applied(to, "Concat", row, {"axis": a}, scope) for row, a in zip(rows, out_axes, strict=True)]
    return [*state, *stacked]


def _numbers(node: Node, name: str, count: int) -> list[int]:
    """An attribute that is a whole number for each of so many, by default 0."""
    found = node.attributes.get(name)
    return [int(number) for number in found] if isinstance(found, tuple) else [0] * count


def _index(number: int) -> Value:
    import numpy as np

    return Value.of(np.asarray(number, np.int64))


def _applied(
    to: Lowers, op: str, values: Sequence[Value], attributes: Mapping[str, int], scope: Scope
) -> Value:
    """The result of an operator. Raises: Refused."""
    names = tuple(f"v{n}" for n in range(len(values)))
    inside = Scope(dict(zip(names, values, strict=True)), scope.opsets, scope.depth + 1)
    to.lower(Node(op, "", "", names, ("made",), attributes), inside)
    found = inside.names["made"]
    assert found is not None
    return found


Body = Callable[[Lowers, Node, Sequence[Value | None], Scope], Sequence[Value]]
BODIES: Mapping[str, Body] = {"If": _if, "Loop": _loop, "Scan": _scan}
