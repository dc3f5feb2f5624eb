"""A learned cost model: the analytic cost, corrected by trees that were trained on measurements.

    isamap compile K --best 16 --evaluate learned:FILE      the 16 best of the analytic model, put in order

The predicted cost is the analytic cost times e to the power of the sum of the trees. The file contains
numbers and a card: the training data, and the quality on unseen kernels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import exp, inf
from pathlib import Path
from typing import Any, cast

import numpy as np

from isamap.machine import Machine
from isamap.plan.plugins import load_cost_model
from isamap.plan.protocols import Trial
from isamap.source import read_json, read_limited, show_value
from isamap.source.records import dataclass
from isamap_learned.features import FEATURES, FEATURES_VERSION, described
from isamap_learned.regression_trees import Forest, forest_json, read_forest

FORMAT = 1
MOST_BYTES = 16 << 20
MODEL = "analytic"
"""The cost model that is corrected."""
MAKE = "`python -m isamap_learned gather` and `python -m isamap_learned train -o FILE` make one"


class ModelUnusable(ValueError):
    """A file that is no trained model of this version."""


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of training: trees over features of these names, and the model card."""

    names: tuple[str, ...]
    forest: Forest
    card: Mapping[str, Any]

    def residual(self, features: Mapping[str, float]) -> float:
        """Return the logarithm of the expected ratio of measured to modelled cost."""
        row = np.array([[features[name] for name in self.names]], np.float64)
        return float(self.forest.values(row)[0])


def print_trained(trained: Trained) -> str:
    """Return a trained model as text."""
    head = {
        "isamap_cost_model": FORMAT,
        "features_version": FEATURES_VERSION,
        "features": list(trained.names),
        "card": dict(trained.card),
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value, indent=1)}" for key, value in head.items()]
    forest = forest_json(trained.forest)
    trees = ",\n".join(json.dumps(tree) for tree in cast(list[object], forest["trees"]))
    return "{\n" + ",\n".join([*lines, f'"start": {forest["start"]}', f'"trees": [\n{trees}\n]']) + "\n}\n"


def parse_trained(name: str, text: str) -> Trained:
    """Return the model that a text holds. Raises: ModelUnusable if it is none, or of another version."""
    try:
        stored: Any = read_json(text)
    except ValueError as error:
        raise _no_model(name, str(error)) from None
    if not isinstance(stored, dict) or "isamap_cost_model" not in stored:
        raise _no_model(name, "it has no `isamap_cost_model`")
    content = cast(dict[str, Any], stored)
    names: Any = content.get("features")
    if content["isamap_cost_model"] != FORMAT:
        raise _other_version(name, f"format {show_value(content['isamap_cost_model'])}", f"{FORMAT}")
    if content.get("features_version") != FEATURES_VERSION:
        was = content.get("features_version")
        raise _other_version(name, f"version {show_value(was)} of the features", f"{FEATURES_VERSION}")
    listed = cast(list[Any], names) if isinstance(names, list) else [None]
    if not all(isinstance(n, str) and n in FEATURES for n in listed) or len(set(listed)) < len(listed):
        raise _no_model(name, "`features` is no list of features")
    card: Any = content.get("card")
    if not isinstance(card, dict):
        raise _no_model(name, "it has no card")
    try:
        forest = read_forest(content, len(cast(list[str], names)))
    except ValueError as error:
        raise _no_model(name, str(error)) from None
    return Trained(tuple(cast(list[str], names)), forest, cast(dict[str, Any], card))


def read_trained(path: str) -> tuple[Trained, str]:
    """Return the model in a file, and the sha256 of that. Raises: ModelUnusable, UsageProblem of `isamap.source`."""
    try:
        content = read_limited(Path(path), MOST_BYTES)
    except OSError as error:
        said = error.strerror or str(error)
        raise ModelUnusable(f"{path} cannot be read: {said}; {MAKE}") from None
    if len(content) > MOST_BYTES:
        raise _no_model(path, f"it has more than {MOST_BYTES >> 20} MB")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise _no_model(path, str(error)) from None
    return parse_trained(path, text), hashlib.sha256(content).hexdigest()


def _no_model(name: str, why: str) -> ModelUnusable:
    return ModelUnusable(f"{name} is no cost model: {why}; {MAKE}")


def _other_version(name: str, what: str, known: str) -> ModelUnusable:
    return ModelUnusable(f"{name} has {what}; this version reads {known}: gather samples and train again")


class Learned:
    """The evaluator by a trained model. It runs nothing."""

    name = "learned"

    def __init__(self, path: str = "") -> None:
        if not path:
            raise ModelUnusable(f"it needs a file behind it: `learned:FILE`; {MAKE}")
        self.trained, self.digest = read_trained(path)

    def evaluate(self, trial: Trial) -> float:
        """Return the nanoseconds of one call, infinite where the analytic model cannot price it."""
        found = described(trial, load_cost_model(MODEL))
        if found.total_ns is None or not found.features:
            return inf
        return found.total_ns * exp(self.trained.residual(found.features))

    def depends_on(self, machine: Machine) -> Mapping[str, str]:
        """Return the file."""
        return {"cost model": self.digest}
