"""Trees as data: walked as they say, and refused where a file holds anything else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from isamap_learned.regression_trees import Forest, Tree, forest_json, read_forest

STUMP = Tree((1, -1, -1), (0.5, 0.0, 0.0), (1, 0, 0), (2, 0, 0), (0.0, -1.0, 2.0))
DEEPER = Tree(
    (0, -1, 1, -1, -1), (3.0, 0, 1.5, 0, 0), (1, 0, 3, 0, 0), (2, 0, 4, 0, 0), (0, 10.0, 0, 20.0, 30.0)
)
FOREST = Forest(100.0, (STUMP, DEEPER))
ROWS = np.array([[3.0, 0.5], [3.1, 0.6], [4.0, 1.5], [4.0, 2.0]])


def test_a_row_goes_below_where_its_feature_is_at_most_the_threshold() -> None:
    assert STUMP.values(ROWS).tolist() == [-1, 2, 2, 2]
    assert DEEPER.values(ROWS).tolist() == [10, 20, 20, 30]


def test_trees_add_up() -> None:
    assert FOREST.values(ROWS).tolist() == [109, 122, 122, 132]
    assert Forest(7.0, ()).values(ROWS).tolist() == [7, 7, 7, 7]


def test_what_is_written_is_read_again() -> None:
    assert read_forest(json.loads(json.dumps(forest_json(FOREST))), 2) == FOREST


LEAF: dict[str, Any] = {"feature": [-1], "threshold": [0], "below": [0], "above": [0], "value": [1]}
SPLIT: dict[str, Any] = {
    "feature": [0, -1, -1],
    "threshold": [0, 0, 0],
    "below": [1, 0, 0],
    "above": [2, 0, 0],
    "value": [0, 1, 2],
}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"start": 0}, "`trees` is no list of at most 2000"),
    ({"start": 0, "trees": [LEAF] * 2001}, "`trees` is no list of at most 2000"),
    ({"start": float("nan"), "trees": []}, "`start` is no finite number"),
    ({"start": True, "trees": []}, "`start` is no finite number"),
    ({"start": 0, "trees": [LEAF, 3]}, "tree 1 has no five lists of one length, at most 1023"),
    (
        {"start": 0, "trees": [LEAF | {"value": []}]},
        "tree 0 has no five lists of one length, at most 1023",
    ),
    ({"start": 0, "trees": [LEAF | {"value": ["1"]}]}, "tree 0: a value is no finite number"),
    ({"start": 0, "trees": [SPLIT | {"feature": [2, -1, -1]}]}, "tree 0, node 0: there is no feature 2"),
    (
        {"start": 0, "trees": [SPLIT | {"feature": [-2, -1, -1]}]},
        "tree 0, node 0: there is no feature -2",
    ),
    (
        {"start": 0, "trees": [SPLIT | {"below": [0, 0, 0]}]},
        "tree 0, node 0: below and above come after it",
    ),
    (
        {"start": 0, "trees": [SPLIT | {"above": [3, 0, 0]}]},
        "tree 0, node 0: below and above come after it",
    ),
    (
        {"start": 0, "trees": [SPLIT | {"below": [1.0, 0, 0]}]},
        "tree 0, node 0: feature, below and above are whole numbers",
    ),
]


@pytest.mark.parametrize(("stored", "said"), WRONG)
def test_anything_else_is_refused(stored: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_forest(stored, 2)
