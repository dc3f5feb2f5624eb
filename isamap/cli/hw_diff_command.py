"""`isamap hw diff A B`: list the differences between two machines, and their effect on kernels.

kernel    before   after    ratio  by                    utilisation
gemm_f32  9.1 µs   5.4 µs   0.60   fma_xmm → fma_ymm     100 %
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.cli.answers import Answer
from isamap.cli.kernel_sizes import HEURISTIC, JOBS, KERNEL_CASES, read_cases, refuse_standard_input
from isamap.cli.option_parser import CommandOptions, argument
from isamap.driver.inputs import machine_of
from isamap.driver.options import list_options
from isamap.driver.predicted import KernelCase, Predicted, PredictionRequest, predict_all
from isamap.driver.request import Choices
from isamap.driver.side_by_side import all_jobs
from isamap.report.columns import align, count_text, percent_text
from isamap.report.machine_changes import changes, changes_text
from isamap.report.mappings import time_text
from isamap.source.progress import Progress
from isamap.source.records import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions(CommandOptions):
    """The options of `hw diff`."""

    first: str = argument("A", "A shipped machine's name, `host`, or a path.")
    second: str = argument("B", "Another one.")
    kernels: tuple[str, ...] = KERNEL_CASES.field()
    heuristic: str = HEURISTIC.field()
    limit_s: float = replace(list_options(Choices)["limit_s"], commands=frozenset()).field()
    jobs: int = JOBS.field()


def diff_command(asked: DiffOptions) -> Answer:
    """Compare two machines: their parts, the kernels that they compute, and the predicted times."""
    from isamap.machine import at_one_length, load_machine

    words = [machine_of(word) for word in (asked.first, asked.second)]
    refuse_standard_input(words)
    machines = [at_one_length(load_machine(word)) for word in words]
    cases, heuristic = read_cases(asked.kernels), asked.heuristic
    requests = [PredictionRequest(case, word, heuristic, asked.limit_s) for case in cases for word in words]
    with Progress() as progress:
        told = [0]

        def seen(_number: int, _found: Predicted) -> None:
            told[0] += 1
            progress("predict", told[0], len(requests))

        found = predict_all(requests, asked.jobs or all_jobs(), seen)
    pairs = list(zip(cases, found[::2], found[1::2], strict=True))
    different = changes(*machines)
    payload: dict[str, object] = {
        "before": machines[0].name,
        "after": machines[1].name,
        "heuristic": heuristic,
        "changes": [change.as_json() for change in different],
        "kernels": [_row_json(*pair) for pair in pairs],
    }
    head = f"{machines[0].called} → {machines[1].called}, times as predicted, scheduled by {heuristic}"
    parts = [head, changes_text(different) or "the machines are alike", _kernels_text(pairs)]
    return Answer(payload, "\n\n".join(parts))


def _row_json(case: KernelCase, before: Predicted, after: Predicted) -> dict[str, object]:
    return {
        "kernel": case.kernel.name.removesuffix(".ir"),
        "sizes": dict(case.sizes),
        "before": before.as_json(),
        "after": after.as_json(),
        "ratio": ratio(before, after),
    }


def ratio(before: Predicted, after: Predicted) -> float | None:
    """Return the predicted time after the change divided by that before it, or None if one is missing."""
    if before.ns is None or after.ns is None or before.ns == 0:
        return None
    return round(after.ns / before.ns, 6)


def _kernels_text(pairs: Sequence[tuple[KernelCase, Predicted, Predicted]]) -> str:
    rows = [("kernel", "before", "after", "ratio", "by", "lanes in use")]
    for case, before, after in pairs:
        if before.ns is None and after.ns is None:
            continue
        change = ratio(before, after)
        rows.append(
            (
                case.name, prediction_text(before), prediction_text(after),
                "" if change is None else f"{change:.2f}",
                _arrow([", ".join(side.instructions) or "–" for side in (before, after)]),
                _arrow([_share(before), _share(after)]),
            )
        )  # fmt: skip
    gained = [case.name.split()[0] for case, a, b in pairs if a.ns is None and b.ns is not None]
    lost = [case.name.split()[0] for case, a, b in pairs if a.ns is not None and b.ns is None]
    neither = [case.name.split()[0] for case, a, b in pairs if a.ns is None and b.ns is None]
    sides = {"gained": gained, "lost": lost, "on neither": neither}
    lines = [
        f"{count_text(len(names), 'kernel')} {said}: {', '.join(names)}"
        for said, names in sides.items()
        if names
    ]
    return "\n".join(
        [*([align(rows, right=(1, 2, 3))] if len(rows) > 1 else []), *([""] if lines else []), *lines]
    )


def prediction_text(found: Predicted) -> str:
    """Return a predicted time as text, or the reason why there is none."""
    return found.refused if found.ns is None else time_text(found.ns)


def _share(found: Predicted) -> str:
    return "–" if found.utilisation is None else percent_text(found.utilisation)


def _arrow(sides: list[str]) -> str:
    return sides[0] if sides[0] == sides[1] else " → ".join(sides)
