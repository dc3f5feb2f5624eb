"""Training of a cost model on the log of evaluations: trees on the residual of the analytic one.

    train(samples_in(Log.open().records()))  ->  Trained

The target is log(measured / modelled), less its median over the schedules of a kernel at some sizes. So the
model learns which schedule is faster, not how fast a kernel is. Families are kernels whose names begin with
the same word. Cross-validation leaves out one family at a time, and the card states how well a model orders
schedules of an unseen family. This quality selects the features: those of the price alone, or all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import exp, log
from statistics import fmean, median
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from isamap.report.schedules import kendall_tau
from isamap.source.records import asdict, dataclass
from isamap.tune.evaluating import Record
from isamap.version import __version__
from isamap_learned.features import FEATURES, FEATURES_VERSION, OF_PRICE
from isamap_learned.learned import MODEL, ModelUnusable, Trained
from isamap_learned.regression_trees import LEAF, Forest, Tree
from isamap_learned.samples import PROCESSOR_TIME

# Evaluators that ran the code.
MEASURED = (PROCESSOR_TIME, "measured")
FEWEST_SAMPLES = 50
# Schedules of one kernel at some sizes: of fewer it says nothing which is the fastest.
FEWEST_IN_ROW = 4
ALL = "all"
TREES = 100
CHOICES: Mapping[str, tuple[str, ...]] = {"price": OF_PRICE, "all": FEATURES}
"""Features to choose among; the first, unless others do better."""
SETTINGS: Mapping[str, object] = {
    "objective": "regression_l1",  # some samples were disturbed
    "learning_rate": 0.05,
    "num_leaves": 6,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.6,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 2.0,
    "use_missing": False,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 1,
    "verbosity": -1,
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A measured schedule. `row` identifies its kernel, sizes, machine and processor."""

    kernel: str
    row: str
    features: Mapping[str, float]
    model_ns: float
    measured_ns: float
    machine: str = ""
    processor: str = ""

    @property
    def family(self) -> str:
        return self.kernel.partition("_")[0]

    @property
    def residual(self) -> float:
        return log(self.measured_ns / self.model_ns)


def samples_in(records: Iterable[Record]) -> tuple[Sample, ...]:
    """Return the usable records: those that ran, with measured times and features of this version."""
    found: list[Sample] = []
    for record in records:
        is_timed = record.evaluator in MEASURED and record.cost_ns and record.model == MODEL
        is_known = record.versions.get("features") == str(FEATURES_VERSION) and record.features
        if is_timed and is_known and record.cost_ns and record.model_cost_ns:
            processor = record.versions.get("processor", "")
            own = (record.kernel_sha256, *sorted(record.sizes.items()), record.machine_sha256)
            row = repr((*own, record.profile, record.evaluator, processor))
            cost = record.model_cost_ns, record.cost_ns
            found.append(Sample(record.kernel, row, record.features, *cost, record.machine, processor))
    return tuple(found)


def train(samples: Sequence[Sample]) -> Trained:
    """Return a model with its card. Raises: ModelUnusable if there are too few samples, or no lightgbm."""
    if len(samples) < FEWEST_SAMPLES:
        raise ModelUnusable(
            f"the log has {len(samples)} samples of these features, and training takes {FEWEST_SAMPLES}: "
            "`python -m isamap_learned gather` collects them"
        )
    tried = {name: _left_out(samples, names) for name, names in CHOICES.items()}
    chosen = min(CHOICES, key=lambda name: _mean_loss(samples, tried[name]))
    card = {
        "isamap": __version__,
        "trained": datetime.now(UTC).isoformat(timespec="seconds"),
        "library": f"lightgbm {_lightgbm().__version__}",
        "features": chosen,
        "samples": len(samples),
        "rows": len({sample.row for sample in samples}),
        "kernels": dict(sorted(Counter(sample.kernel for sample in samples).items())),
        "machines": dict(sorted(Counter(sample.machine for sample in samples).items())),
        "processors": sorted({sample.processor for sample in samples}),
        "held_out": _held_out(samples, tried[chosen]),
    }
    return Trained(CHOICES[chosen], _fit_forest(samples, CHOICES[chosen]), card)


def judged(
    samples: Sequence[Sample], residuals: Sequence[float]
) -> tuple[Judgement | None, Judgement | None]:
    """Return how well the analytic model orders the schedules of each row, and how well with residuals added."""
    rows: dict[str, list[tuple[Sample, float]]] = {}
    for sample, residual in zip(samples, residuals, strict=True):
        rows.setdefault(sample.row, []).append((sample, residual))
    known = [row for row in rows.values() if len(row) >= FEWEST_IN_ROW]
    measured = [[sample.measured_ns for sample, _ in row] for row in known]
    analytic = [[sample.model_ns for sample, _ in row] for row in known]
    learned = [[sample.model_ns * exp(residual) for sample, residual in row] for row in known]
    return Judgement.of(zip(analytic, measured, strict=True)), Judgement.of(
        zip(learned, measured, strict=True)
    )


def _left_out(samples: Sequence[Sample], names: Sequence[str]) -> list[float]:
    """Return predictions of each sample by a model of the other families; 0 if there is only one family."""
    found = [0.0] * len(samples)
    for family in {sample.family for sample in samples}:
        rest = [sample for sample in samples if sample.family != family]
        places = [place for place, sample in enumerate(samples) if sample.family == family]
        own = matrix([samples[place] for place in places], names)
        values = _fit_forest(rest, names).values(own) if rest else [0.0] * len(places)
        for place, value in zip(places, values, strict=True):
            found[place] = float(value)
    return found


def _mean_loss(samples: Sequence[Sample], residuals: Sequence[float]) -> float:
    """Return the mean ratio of the first choice to the best; 1 if there are too few samples of each row."""
    learned = judged(samples, residuals)[1]
    return learned.first_over_best if learned is not None else 1.0


def _held_out(samples: Sequence[Sample], residuals: Sequence[float]) -> list[dict[str, object]]:
    """Return, per family, how well both models order its schedules, the learned one not trained on it; all come last.

    Nothing of a family without rows of enough schedules, or of the only one there is.
    """
    found: list[dict[str, object]] = []
    families = sorted({sample.family for sample in samples})
    for family in (*families, ALL) if len(families) > 1 else ():
        both = [p for p in zip(samples, residuals, strict=True) if family in (p[0].family, ALL)]
        analytic, learned = judged([sample for sample, _ in both], [residual for _, residual in both])
        if analytic is not None and learned is not None:
            own: dict[str, object] = {"family": family, "samples": len(both), "rows": analytic.rows}
            found.append(own | {"analytic": _round_judgement(analytic), "learned": _round_judgement(learned)})
    return found


def _round_judgement(judgement: Judgement) -> dict[str, float]:
    return {name: round(value, 4) for name, value in asdict(judgement).items() if name != "rows"}


def matrix(samples: Sequence[Sample], names: Sequence[str] = FEATURES) -> NDArray[np.float64]:
    """Return the features of these names. Shapes: [sample, feature]."""
    return np.array([[sample.features[name] for name in names] for sample in samples], np.float64)


def centre_residuals(samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Return residuals less the median of their row. Shapes: [sample]."""
    rows: dict[str, list[float]] = {}
    for sample in samples:
        rows.setdefault(sample.row, []).append(sample.residual)
    middles = {row: median(residuals) for row, residuals in rows.items()}
    return np.array([sample.residual - middles[sample.row] for sample in samples], np.float64)


# --- the library ------------------------------------------------------------------------------------------


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError:
        raise ModelUnusable("lightgbm trains models, and is not installed: pip install lightgbm") from None
    return lightgbm


def _fit_forest(samples: Sequence[Sample], names: Sequence[str]) -> Forest:
    """Return the trees that lightgbm makes. Raises: ModelUnusable if it is not installed."""
    library = _lightgbm()
    data = library.Dataset(matrix(samples, names), centre_residuals(samples), params={"verbosity": -1})
    booster = library.train(dict(SETTINGS), data, num_boost_round=TREES)
    dumped: dict[str, Any] = booster.dump_model()
    return Forest(0.0, tuple(_tree(info["tree_structure"]) for info in dumped["tree_info"]))


def _tree(root: Mapping[str, Any]) -> Tree:
    """Return a tree with its nodes in a row, each before those that it leads to."""
    nodes: list[Mapping[str, Any]] = [root]
    links: list[tuple[int, int]] = []
    for node in nodes:  # grows meanwhile
        links.append((0, 0))
        if "split_feature" in node:
            links[-1] = (len(nodes), len(nodes) + 1)
            nodes += [cast("Mapping[str, Any]", node[f"{side}_child"]) for side in ("left", "right")]
    return Tree(
        tuple(int(node.get("split_feature", LEAF)) for node in nodes),
        tuple(float(node.get("threshold", 0.0)) for node in nodes),
        tuple(below for below, _ in links),
        tuple(above for _, above in links),
        tuple(round(float(node.get("leaf_value", 0.0)), 7) for node in nodes),
    )


# How well costs order schedules that were measured: Kendall's tau, and what the first choice loses.


def first_over_best(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Return the measured time of the predicted fastest schedule relative to the least: 1 if it is the fastest."""
    return measured[predicted.index(min(predicted))] / min(measured)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Means over kernels at some sizes: geometric of first choice over best, arithmetic of tau."""

    rows: int
    first_over_best: float
    worst: float
    tau: float

    @staticmethod
    def of(cases: Iterable[tuple[Sequence[float], Sequence[float]]]) -> Judgement | None:
        """Return the judgement of predicted and measured costs of each case; None without cases."""
        known = list(cases)
        if not known:
            return None
        lost = [first_over_best(predicted, measured) for predicted, measured in known]
        tau = fmean(kendall_tau(list(zip(*pair, strict=True))) or 0.0 for pair in known)
        return Judgement(len(known), exp(fmean(map(log, lost))), max(lost), tau)
