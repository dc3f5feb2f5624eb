"""A learned cost model on stores of measured schedules: of a processor, say, that it was not trained on.

    python plugins/learned/residuals.py describe --store amx.jsonl --hw x86-amx --profile profile.json -o amx.samples
    python plugins/learned/residuals.py report --model model.json amx.samples
    python plugins/learned/residuals.py residuals amx.samples       what is measured over modelled, by feature
    python plugins/learned/residuals.py residuals                   the same of the log of evaluations

Stores are those of `benchmarks/ranking.py`, whose folder must be in PYTHONPATH. `describe` prices their
schedules and writes samples, a line each; what was described before is not described again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import exp
from pathlib import Path

import numpy as np
from isamap_learned.features import FEATURES, described
from isamap_learned.learned import read_trained
from isamap_learned.training import Judgement, Sample, centre_residuals, judged, matrix, samples_in
from ranking_cases import Case
from ranking_report import problem_of

from isamap.driver.pipeline import compile_kernel
from isamap.plan.plugins import load_cost_model
from isamap.plan.protocols import Trial
from isamap.plan.text import parse_schedule
from isamap.source import Source
from isamap.tune.evaluating import Log

SHOWN = 20


def describe(store: Path, machine: str, profile: str, target: Path) -> None:
    """Write the samples of a store that are not there yet."""
    lines = target.read_text().splitlines() if target.exists() else []
    done = {json.loads(line)["row"] for line in lines}
    model = load_cost_model("analytic")
    for entry in map(json.loads, store.read_text().splitlines()):
        case, row = Case.named(str(entry["case"])), f"{store.name} {entry['case']}"
        if row in done:
            continue
        problem = problem_of(case, machine, profile, target.with_suffix(".problems"))
        made = compile_kernel(case.request(machine, profile), "transform")
        assert made.machine
        assert made.canonical
        found: list[Sample] = []
        for text, times in zip(entry["schedules"], entry["ns"], strict=True):
            schedule = parse_schedule(Source("stored", text))
            about = described(Trial(made.canonical, made.machine, problem, schedule, case.sizes), model)
            if about.total_ns and about.features:
                cost = about.total_ns, float(times["min"])
                found.append(Sample(case.kernel, row, about.features, *cost, machine, store.stem))
        with target.open("a") as file:
            file.writelines(json.dumps(asdict(sample)) + "\n" for sample in found)
        print(f"{row}: {len(found)} of {len(entry['ns'])} priced", file=sys.stderr, flush=True)


def samples_of(files: Iterable[str]) -> list[Sample]:
    """Return samples of files, or of the log where there are none."""
    lines = [line for file in files for line in Path(file).read_text().splitlines()]
    return [Sample(**json.loads(line)) for line in lines] or list(samples_in(Log.open().records()))


def report(samples: Sequence[Sample], path: str) -> None:
    """Print, kernel by kernel, how well the analytic and the learned costs order schedules."""
    trained, _ = read_trained(path)
    print(f"{'kernel':20} {'rows':>4}  {'first over best, worst, tau: analytic':>38}  {'learned':>24}")
    for kernel in (*dict.fromkeys(sample.kernel for sample in samples), ""):
        own = [sample for sample in samples if not kernel or sample.kernel == kernel]
        analytic, learned = judged(own, [trained.residual(sample.features) for sample in own])
        if analytic and learned:
            print(f"{kernel or 'all':20} {analytic.rows:4}  {_said(analytic):>38}  {_said(learned):>24}")


def _said(judgement: Judgement) -> str:
    return f"{judgement.first_over_best:.3f}  {judgement.worst:.2f}  {judgement.tau:.3f}"


def residuals(samples: Sequence[Sample]) -> None:
    """Print the features by which measured over modelled differs most within kernels at their sizes.

    Rows less their own medians, so that it is about schedules and not about kernels: the correlation, and
    the mean factor in the lowest and the highest third of the samples whose feature differs at all.
    """
    table, target = matrix(samples), centre_residuals(samples)
    numbers: dict[str, int] = {}
    rows = np.array([numbers.setdefault(sample.row, len(numbers)) for sample in samples])
    for row in range(len(numbers)):
        own = rows == row
        table[own] -= np.median(table[own], axis=0)
    found: list[tuple[float, str, int, float, float]] = []
    for place, name in enumerate(FEATURES):
        column = table[:, place]
        differs = np.abs(column) > 1e-9
        if differs.sum() < 0.05 * len(samples):
            continue
        own, values = target[differs], column[differs]
        low, high = np.quantile(values, (1 / 3, 2 / 3))
        factors = (exp(float(own[values <= low].mean())), exp(float(own[values >= high].mean())))
        tie = float(np.corrcoef(column, target)[0, 1])
        found.append((abs(tie), name, int(differs.sum()), tie, factors[1] / factors[0]))
    print(f"{'feature':24} {'differs':>8} {'correlation':>11} {'high over low':>13}")
    for _, name, count, tie, factor in sorted(found, reverse=True)[:SHOWN]:
        print(f"{name:24} {count:8} {tie:11.2f} {factor:13.2f}")


def main() -> None:
    """Describe stores, or report on samples."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("describe", "report", "residuals"))
    parser.add_argument("samples", nargs="*", help="files of samples; without any, the log of evaluations")
    parser.add_argument("--store", help="of ranking.py")
    parser.add_argument("--hw", help="the machine that a store is of")
    parser.add_argument("--profile", default="none", help="a profile's file, or `none`")
    parser.add_argument("--model", help="a trained model")
    parser.add_argument("-o", help="where described samples go")
    words = parser.parse_intermixed_args()
    if words.what == "describe":
        describe(Path(words.store), words.hw, words.profile, Path(words.o))
    elif words.what == "report":
        report(samples_of(words.samples), words.model)
    else:
        residuals(samples_of(words.samples))


if __name__ == "__main__":
    main()
