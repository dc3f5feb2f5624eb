"""`isamap tune gather` and `isamap tune train`: samples for a learned cost model, and the model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isamap.cli.answers import Answer, check_new, write_text
from isamap.cli.early_words import read_sizes
from isamap.cli.kernel_sizes import SCHEDULER
from isamap.cli.option_parser import SIZES, CommandOptions, argument, flag
from isamap.driver.options import WORD, option, seconds_in
from isamap.report.columns import align
from isamap.source import Diagnostic, UsageProblem
from isamap.source.progress import Progress
from isamap.source.records import dataclass

if TYPE_CHECKING:
    from isamap.driver.gathering import Gathered
    from isamap.suites.samples import SampleRow

MOST_MINUTES = 10_000
LIMIT_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherOptions(CommandOptions):
    """The options of `tune gather`."""

    kernel: str | None = argument(
        "[KERNEL]",
        "Only of this one: its rows of the shipped list, or one row of the sizes behind -D.",
        default=None,
    )
    sizes: tuple[str, ...] = SIZES.field()
    minutes: float = option(
        "--minutes", "N", "No row is visited later; it goes on next time.", seconds_in(0.001, MOST_MINUTES),
        default=60.0,
    )  # fmt: skip
    scheduler: str | None = SCHEDULER.field()


def gather_command(asked: GatherOptions) -> Answer:
    """Time random schedules near the model's best on this processor: samples for `tune train`."""
    from isamap.driver.gathering import Plan, gather, samples_of
    from isamap.driver.inputs import find_profile, machine_of
    from isamap.tune.evaluating import Log

    stop = time.monotonic() + 60 * asked.minutes
    machine, log = machine_of("host"), Log.open()
    plan = Plan(
        _rows(asked.kernel, read_sizes(asked.sizes)), machine, find_profile("default", machine), LIMIT_S
    )
    known = samples_of(plan, log)
    with Progress() as progress:
        visits = list(gather(plan, known, stop, progress, asked.scheduler))
    before, after = ({r: len(t) for r, t in s.items()} for s in (known, samples_of(plan, log)))
    payload = {
        "path": str(log.path),
        "machine": machine,
        "before": sum(before.values()),
        "samples": sum(after.values()),
        "failed": sum(visit.failed for visit in visits),
        "rows": [{"row": str(row), "samples": count} for row, count in after.items()],
        "refused": [{"row": str(v.row), "why": v.refused} for v in visits if v.refused],
    }
    return Answer(payload, "\n".join(_describe_gathered(before, after, visits)))


def _rows(kernel: str | None, sizes: Mapping[str, object]) -> tuple[SampleRow, ...]:
    """Return the rows to gather. Raises: UsageProblem if sizes have no kernel, or a kernel no sizes."""
    from isamap.suites.samples import SampleRow, read_sample_rows

    shipped = read_sample_rows()
    own = tuple(row for row in shipped if row.kernel == kernel)
    if kernel is None and not sizes:
        return shipped
    numbers = tuple((name, value) for name, value in sizes.items() if isinstance(value, int))
    if kernel is None or len(numbers) < len(sizes) or not (sizes or own):
        raise UsageProblem(
            Diagnostic(
                "gather-rows",
                "`isamap tune gather` takes no kernel, one of the list, or one with a number for each size",
                notes=("without a kernel it goes through the whole list",),
                help="name the kernel and its sizes: `isamap tune gather gemm_f64 -D M=64 N=64 K=64`",
            )
        )
    return (SampleRow(kernel, numbers),) if sizes else own


def _describe_gathered(
    before: Mapping[SampleRow, int], after: Mapping[SampleRow, int], visits: Sequence[Gathered]
) -> Iterator[str]:
    head = ("row", "samples", "new")
    rows = ((str(row), str(count), str(count - before[row])) for row, count in after.items())
    yield align([head, *rows], right=(1, 2))
    yield from (f"not gathered: {visit.row}: {visit.refused}" for visit in visits if visit.refused)
    new = sum(after.values()) - sum(before.values())
    yield f"{sum(after.values())} samples, {new} of them new; `isamap tune train -o FILE` trains a model"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions(CommandOptions):
    """The options of `tune train`."""

    output: str = option("-o", "FILE", "Where the model goes.", WORD)
    overwrite: bool = flag("--overwrite", "Also over a file that exists.")


def train_command(asked: TrainOptions) -> Answer:
    """Train a cost model on the log of evaluations, for `--evaluate learned:FILE`."""
    from isamap.tune.evaluating import Log
    from isamap.tune.learned import print_trained
    from isamap.tune.training import samples_in, train

    output = asked.output
    if not asked.overwrite:
        check_new(Path(output))
    trained = train(samples_in(Log.open().records()))
    write_text(Path(output), print_trained(trained), overwrite=asked.overwrite)
    card = dict(trained.card)
    return Answer({"file": output, "card": card}, "\n".join(_card(card, output)))


def _card(card: Mapping[str, Any], output: str) -> Iterator[str]:
    known = f"{card['samples']} samples of {card['rows']} rows, {len(card['kernels'])} kernels"
    yield f"{known}; features: {card['features']}"
    yield "each family left out once: first choice over best (worst), tau"
    head = ("family", "rows", "samples", "analytic", "learned")
    rows = (
        (
            held["family"],
            str(held["rows"]),
            str(held["samples"]),
            _describe_judgement(held["analytic"]),
            _describe_judgement(held["learned"]),
        )
        for held in card["held_out"]
    )
    yield align([head, *rows], right=(1, 2))
    yield f"wrote {output}; `isamap compile … --best 16 --evaluate learned:{output}` uses it"


def _describe_judgement(judged: Mapping[str, float]) -> str:
    return f"{judged['first_over_best']:.3f} ({judged['worst']:.2f}), {judged['tau']:.3f}"
