"""`isamap bench …` on a machine that this computer cannot run: a table of simulated times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isamap.cli.answers import Answer
from isamap.cli.terminal import Progress
from isamap.driver.options import read_choice
from isamap.source import replace_file

if TYPE_CHECKING:
    from isamap.bench.simulated import SimulatedRow


def is_simulated(kind: str, machine: str) -> bool:
    """Return whether cases of a kind are simulated on a machine: programs for it run as models only."""
    from isamap.bench.layer_kinds import LAYER_KINDS
    from isamap.machine import load_machine

    return kind in LAYER_KINDS and load_machine(machine).target.run == "model"


def simulated_answer(
    title: str, kind: str, machine: str, cases: Sequence[Any], given: Mapping[str, Any]
) -> Answer:
    """Return the table of a suite, and its files where a folder is named. Raises: UsageProblem, MissingTool."""
    from isamap.bench.cases import SIMULATED_FORMS
    from isamap.bench.layer_kinds import LAYER_KINDS
    from isamap.bench.simulated_suite import (
        SimulatedCampaign,
        run_simulated,
        simulated_table,
        simulated_text,
        summarise_simulated,
    )

    dtype = read_choice(given["dtype"] or "int8", "--dtype", tuple(SIMULATED_FORMS))
    folder = Path(given["output"]) if given["output"] else None
    campaign = SimulatedCampaign(
        LAYER_KINDS[kind],
        cases,
        SIMULATED_FORMS[dtype],
        machine,
        given["limit_s"],
        folder,
        given["resume"],
        given["minutes"],
    )
    with Progress() as progress:
        rows, where = run_simulated(campaign, progress)
    summary = summarise_simulated(rows)
    head = f"{title}, {dtype}, on {machine} by the simulator"
    text = f"{head}\n\n{simulated_table(rows, campaign.kind.heading)}\n\n{simulated_text(summary)}\n"
    if folder is not None:
        _keep(folder, text, rows)
    payload: dict[str, object] = {
        "environment": where,
        "suite": title,
        "rows": [row.as_json() for row in rows],
        "summary": summary.as_json(),
    }
    return Answer(payload, text, exit=1 if any(row.checked and not row.is_right for row in rows) else 0)


def _keep(folder: Path, text: str, rows: Sequence[SimulatedRow]) -> None:
    """The table, and the rows as CSV."""
    from isamap.bench.simulated_suite import simulated_csv

    for name, content in {"table.txt": text, "rows.csv": simulated_csv(rows)}.items():
        replace_file(folder / name, content.encode(), durable=True)
