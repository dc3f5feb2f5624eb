"""Gather samples for a learned cost model, and train it.

python -m isamap_learned gather --minutes 60
python -m isamap_learned train -o model.json
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from isamap.driver.inputs import find_profile, machine_of
from isamap.source import IsamapError
from isamap.source.progress import Progress
from isamap.tune.evaluating import Log
from isamap_learned.gathering import Plan, gather, samples_of
from isamap_learned.learned import ModelUnusable, print_trained
from isamap_learned.samples import SampleRow, read_sample_rows
from isamap_learned.training import samples_in, train


def gather_samples(kernel: str | None, sizes: Sequence[str], minutes: float, scheduler: str | None) -> None:
    """Time random schedules near the model's best on this processor. Raises: ModelUnusable, IsamapError."""
    stop, machine, log = time.monotonic() + 60 * minutes, machine_of("host"), Log.open()
    plan = Plan(_rows(kernel, sizes), machine, find_profile("default", machine))
    before = samples_of(plan, log)
    with Progress() as progress:
        visits = list(gather(plan, before, stop, progress, scheduler))
    after = samples_of(plan, log)
    for row, texts in after.items():
        print(f"{row}: {len(texts)} samples, {len(texts) - len(before[row])} of them new")
    for visit in visits:
        if visit.refused:
            print(f"not gathered: {visit.row}: {visit.refused}")


def _rows(kernel: str | None, sizes: Sequence[str]) -> tuple[SampleRow, ...]:
    """Return the rows to gather. Raises: ModelUnusable if sizes have no kernel, or a kernel no sizes."""
    shipped = read_sample_rows()
    if kernel is None and not sizes:
        return shipped
    own = tuple(row for row in shipped if row.kernel == kernel)
    pairs = [(name, value) for name, _, value in (word.partition("=") for word in sizes)]
    if kernel is None or not (own or pairs) or not all(value.isdecimal() for _, value in pairs):
        raise ModelUnusable("name a kernel with a number for each size: `gather gemm_f64 -D M=64 N=64 K=64`")
    return (SampleRow(kernel, tuple((name, int(value)) for name, value in pairs)),) if pairs else own


def train_model(output: Path, *, overwrite: bool) -> None:
    """Train a model on the log of evaluations. Raises: ModelUnusable, IsamapError."""
    if output.exists() and not overwrite:
        raise ModelUnusable(f"{output} exists: name another file, or give --overwrite")
    trained = train(samples_in(Log.open().records()))
    output.write_text(print_trained(trained), encoding="utf-8")
    print("\n".join(_describe_card(trained.card)))


def _describe_card(card: Mapping[str, Any]) -> Iterator[str]:
    yield f"{card['samples']} samples of {card['rows']} rows; features: {card['features']}"
    yield "each family left out once: first choice over best (worst), tau; analytic, learned"
    for held in card["held_out"]:
        both = (
            "{first_over_best:.3f} ({worst:.2f}), {tau:.3f}".format(**held[m])
            for m in ("analytic", "learned")
        )
        yield f"{held['family']}: {'; '.join(both)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m isamap_learned", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    of_gather = commands.add_parser("gather")
    of_gather.add_argument("kernel", nargs="?")
    of_gather.add_argument("-D", dest="sizes", nargs="+", default=[])
    of_gather.add_argument("--minutes", type=float, default=60.0)
    of_gather.add_argument("--scheduler")
    of_train = commands.add_parser("train")
    of_train.add_argument("-o", dest="output", type=Path, required=True)
    of_train.add_argument("--overwrite", action="store_true")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "gather":
            gather_samples(asked.kernel, asked.sizes, asked.minutes, asked.scheduler)
        else:
            train_model(asked.output, overwrite=asked.overwrite)
    except (ModelUnusable, IsamapError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
