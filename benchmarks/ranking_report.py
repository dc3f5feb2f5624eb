"""How well predicted costs order schedules that were measured: the report of `ranking.py`."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log
from pathlib import Path
from typing import cast

from ranking_cases import Case

from isamap import formulate
from isamap.driver.pipeline import compile_kernel
from isamap.plan import problem
from isamap.plan.plugins import load_cost_model
from isamap.plan.problem import Problem
from isamap.plan.text import parse_schedule
from isamap.report.schedules import kendall_tau
from isamap.scheduler.nests.pricing import price
from isamap.source import Source
from isamap.source.codec import read_value, write


def first_over_best(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Return the measured time of the predicted fastest schedule relative to the least: 1 if it is the fastest."""
    return measured[predicted.index(min(predicted))] / min(measured)


@dataclass(frozen=True, slots=True)
class Judged:
    """One case priced: `slower` is the time of the model's first choice over that of the best candidate."""

    case: Case
    predicted: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def tau(self) -> float:
        return kendall_tau(list(zip(self.predicted, self.measured, strict=True))) or 0.0

    @property
    def slower(self) -> float:
        return first_over_best(self.predicted, self.measured)

    @property
    def spread(self) -> float:
        return max(self.measured) / min(self.measured)

    @property
    def ratio(self) -> float:
        """Measured over predicted, in the middle of the candidates."""
        return statistics.median(m / p for m, p in zip(self.measured, self.predicted, strict=True))


def judge(entry: Mapping[str, object], machine: str, profile: str, problems: Path) -> Judged:
    """Return a stored case, priced for a machine with a profile."""
    case = Case.named(str(entry["case"]))
    formulated = problem_of(case, machine, profile, problems)
    model = load_cost_model("analytic")
    texts = cast("list[str]", entry["schedules"])
    times = cast("list[dict[str, float]]", entry["ns"])
    priced = [price(parse_schedule(Source("s", text)), formulated, model) for text in texts]
    known = (
        (tuple(x for x in p if x is not None), t["min"], len(p)) for p, t in zip(priced, times, strict=True)
    )
    kept = [(sum(p), least) for p, least, parts in known if len(p) == parts]
    return Judged(case, tuple(p for p, _ in kept), tuple(float(t) for _, t in kept))


def problem_of(case: Case, machine: str, profile: str, folder: Path) -> Problem:
    """Return the problem of a case, from a file where it was built before by the same rules."""
    request = case.request(machine, profile)
    label = request.profile.digest[:12] if request.profile else "none"
    path = folder / f"{case.name.replace(' ', '-')}-{machine}-{label}-{_rules()}.json"
    if path.exists():
        return read_value(path.read_text())
    formulated = compile_kernel(request, "formulate").problem
    assert formulated
    folder.mkdir(exist_ok=True)
    path.write_text(write(formulated))
    return formulated


@cache
def _rules() -> str:
    """Return a digest of what problems are made by; effects, which price them, may change."""
    sources = [Path(problem.__file__), *sorted(Path(formulate.__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def report(judged: Sequence[Judged], label: str) -> Iterator[str]:
    """Tau and the loss of the first choice, per case and on average."""
    yield f"figures: {label}"
    yield f"{'case':28} {'tau':>6} {'first/best':>10} {'worst/best':>10} {'measured/predicted':>18}"
    for j in judged:
        yield f"{j.case.name:28} {j.tau:6.2f} {j.slower:10.2f} {j.spread:10.2f} {j.ratio:18.2f}"
    for kernel in (*dict.fromkeys(j.case.kernel for j in judged), ""):
        own = [j for j in judged if j.case.kernel == kernel or not kernel]
        if own:
            loss = exp(statistics.fmean(log(j.slower) for j in own))
            tau = statistics.fmean(j.tau for j in own)
            exact = f"within 2 % in {sum(j.slower < 1.02 for j in own)} of {len(own)}"
            yield (
                f"{kernel or 'all':16} {len(own)} cases: mean tau {tau:.3f}; first choice {loss:.3f} x "
                f"the best measured (geometric mean), worst {max(j.slower for j in own):.2f}, {exact}"
            )
