"""`isamap tune`: list the schedules that `--tune` has stored, and all evaluations.

`tune log` is for people and for training models with it.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer
from isamap.cli.option_parser import CommandOptions, flag
from isamap.report.columns import align
from isamap.source.records import asdict, dataclass

if TYPE_CHECKING:
    from isamap.tune.evaluating import Record
    from isamap.tune.winners import Winner


def list_command(asked: CommandOptions) -> Answer:
    """List the schedules that `--tune` has stored."""
    from isamap.tune.winners import Winners

    database = Winners.open()
    winners = database.all()
    payload: dict[str, object] = {"path": str(database.path), "count": len(winners)}
    if asked.as_json:
        payload["winners"] = [_winner_json(winner) for winner in winners]
    if not winners:
        return Answer(payload, "no schedule was tuned yet; use `isamap compile --tune`")
    head = ("time", "kernel", "machine", "sizes", "threads", "measured_ns", "winner", "first takes")
    return Answer(payload, align([head, *map(_winner_row, winners)], right=(4, 5)))


def _winner_json(winner: Winner) -> dict[str, object]:
    """Return the winner with units in its keys, without the fields that only the database needs."""
    found = asdict(winner)
    measured_ns = found.pop("cost_ns")
    del found["key"], found["state"]
    return {**found, "measured_ns": measured_ns}


def _winner_row(winner: Winner) -> tuple[str, ...]:
    return (
        winner.time,
        winner.kernel,
        winner.machine,
        " ".join(f"{name}={value}" for name, value in winner.sizes.items()),
        str(winner.threads),
        f"{winner.cost_ns:.1f}",
        f"{winner.place} of {winner.contenders}",
        f"{winner.ratio:.3f} times as long",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions(CommandOptions):
    """The options of `tune log`."""

    as_csv: bool = flag("--csv", "All columns, objects in them as JSON.")


def log_command(asked: LogOptions) -> Answer:
    """Show every evaluated schedule with the parts of its price."""
    from isamap.tune.evaluating import Log

    log = Log.open()
    records = list(log.records())
    payload: dict[str, object] = {"path": str(log.path), "count": len(records)}
    if asked.as_json:
        payload["evaluations"] = [asdict(record) for record in records]
    if asked.as_csv:
        return Answer(payload, _csv(records))
    if not records:
        return Answer(payload, "no schedule was evaluated yet; use `isamap schedule --evaluate simulated`")
    head = ("time", "kernel", "machine", "sizes", "evaluator", "cost_ns", "model_ns")
    return Answer(payload, align([head, *map(_row, records)], right=(5, 6)))


def _row(record: Record) -> tuple[str, ...]:
    sizes = " ".join(f"{name}={value}" for name, value in record.sizes.items())
    costs = (record.cost_ns, record.model_cost_ns)
    shown = ("-" if cost is None else f"{cost:.1f}" for cost in costs)
    return record.time, record.kernel, record.machine, sizes, record.evaluator, *shown


def _csv(records: list[Record]) -> str:
    from isamap.tune.evaluating import TABLE

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TABLE.columns)
    for record in records:
        values = asdict(record)
        cells = (values[name] for name in TABLE.columns)
        writer.writerow([json.dumps(c, sort_keys=True) if isinstance(c, dict) else c for c in cells])
    return text.getvalue()
