"""Regression trees as data: read from files, and evaluated without the training library.

    {"feature": [3, -1, -1], "threshold": [0.5, 0, 0], "below": [1, 0, 0], "above": [2, 0, 0],
     "value": [0, -0.1, 0.2]}

Node 0 is the root. A node with a feature leads to `below` if the feature is at most the threshold, else to
`above`. Both come after the node, so every walk ends. A node without a feature (-1) is a leaf with a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from isamap.source import real_number
from isamap.source.records import dataclass

LEAF = -1
MOST_TREES, MOST_NODES = 2000, 1023
"""Limits on the contents of a file, which may come from an untrusted source."""
LARGEST_SUM = 300.0
"""The largest sum of `start` and the trees: e to its power, a factor of a cost, is a float."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree by its nodes; all tuples have one entry for each."""

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    below: tuple[int, ...]
    above: tuple[int, ...]
    value: tuple[float, ...]

    def values(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the value of the leaf that each row comes to. Shapes: rows [row, feature]."""
        feature, threshold = np.array(self.feature), np.array(self.threshold)
        below, above = np.array(self.below), np.array(self.above)
        at = np.zeros(len(rows), np.intp)
        while (inner := feature[at] != LEAF).any():
            here = at[inner]
            is_below = rows[inner, feature[here]] <= threshold[here]
            at[inner] = np.where(is_below, below[here], above[here])
        return np.array(self.value)[at]


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees whose values are added to `start` for a prediction."""

    start: float
    trees: tuple[Tree, ...]

    def values(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the prediction for each row. Shapes: rows [row, feature]."""
        found = np.full(len(rows), self.start)
        for tree in self.trees:
            found += tree.values(rows)
        return found


def forest_json(forest: Forest) -> dict[str, object]:
    """Return a forest as a file has it."""
    return {
        "start": forest.start,
        "trees": [
            {
                "feature": list(tree.feature),
                "threshold": list(tree.threshold),
                "below": list(tree.below),
                "above": list(tree.above),
                "value": list(tree.value),
            }
            for tree in forest.trees
        ],
    }


def read_forest(stored: Mapping[str, Any], features: int) -> Forest:
    """Return the forest in a JSON value, for a number of features. Raises: ValueError with the error."""
    trees: Any = stored.get("trees")
    if not isinstance(trees, list) or len(cast(list[Any], trees)) > MOST_TREES:
        raise ValueError(f"`trees` is no list of at most {MOST_TREES}")
    (start,) = _numbers([stored.get("start")], "`start`")
    found = tuple(_tree(tree, f"tree {n}", features) for n, tree in enumerate(cast(list[Any], trees)))
    if abs(start) + sum(max(map(abs, tree.value)) for tree in found) > LARGEST_SUM:
        raise ValueError(f"`start` and the trees may add up to more than {LARGEST_SUM:g}")
    return Forest(start, found)


def _tree(stored: object, where: str, features: int) -> Tree:
    known = cast(Mapping[str, Any], stored if isinstance(stored, dict) else {})
    stated = (known.get(name) for name in ("feature", "threshold", "below", "above", "value"))
    lists = [cast(list[Any], value) if isinstance(value, list) else [] for value in stated]
    count = len(lists[0])
    if not 0 < count <= MOST_NODES or any(len(numbers) != count for numbers in lists):
        raise ValueError(f"{where} has no five lists of one length, at most {MOST_NODES}")
    feature, threshold, below, above, value = lists
    for node, numbers in enumerate(zip(feature, below, above, strict=True)):
        if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
            raise ValueError(f"{where}, node {node}: feature, below and above are whole numbers")
        if numbers[0] == LEAF:
            continue
        if not 0 <= numbers[0] < features:
            raise ValueError(f"{where}, node {node}: there is no feature {numbers[0]}")
        if not all(node < child < count for child in numbers[1:]):
            raise ValueError(f"{where}, node {node}: below and above come after it")
    return Tree(
        tuple(feature),
        _numbers(threshold, f"{where}: a threshold"),
        tuple(below),
        tuple(above),
        _numbers(value, f"{where}: a value"),
    )


def _numbers(values: Sequence[Any], what: str) -> tuple[float, ...]:
    for value in values:
        number = real_number(value)  # infinite for a whole number beyond all floats
        if number is None or not isinstance(value, int | float) or not isfinite(number):
            raise ValueError(f"{what} is no finite number")
    return tuple(float(value) for value in values)
