"""`isamap bench deepbench gru`, `lstm` and `rnn`: recurrent layers beside the installed libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isamap.cli.answers import Answer
from isamap.cli.bench_command import SUITES as SUITE_WORDS
from isamap.cli.bench_command import (
    BenchMachine,
    Hold,
    Resume,
    RowSeconds,
    RowWords,
    SuiteName,
    Threads,
)
from isamap.cli.options import AsJson, LimitSeconds, ProfileName
from isamap.cli.terminal import Progress
from isamap.cli.words import read_choice, read_number
from isamap.driver.inputs import machine_of
from isamap.source import replace_file

if TYPE_CHECKING:
    from isamap.bench.cell_campaign import CellCampaign

DTYPES = ("f32", "bf16")
CellType = Annotated[str, typer.Option("--dtype", metavar="TYPE", help=f"One of {', '.join(DTYPES)}.")]
Steps = Annotated[
    str, typer.Option("--steps", metavar="N", help="At most so many time steps of each row, or `all`.")
]
CellFolder = Annotated[
    str | None,
    typer.Option("-o", metavar="FOLDER", help="Keep rows and their table there.", show_default=False),
]
CellBaselines = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="NAMES",
        help="Baselines, of torch,onnxruntime; all by default.",
        show_default=False,
    ),
]


def _command(cell: str, about: str) -> Callable[..., Answer]:
    """The command of a cell."""

    def command(
        hw: BenchMachine = "host",
        suite: SuiteName = "all",
        dtype: CellType = "f32",
        rows: RowWords = None,
        steps: Steps = "8",
        threads: Threads = "1",
        against: CellBaselines = None,
        hold: Hold = None,
        seconds: RowSeconds = "4",
        limit: LimitSeconds = "10",
        profile: ProfileName = "default",
        output: CellFolder = None,
        resume: Resume = False,
        as_json: AsJson = False,
    ) -> Answer:
        from isamap.bench.cases import SUITES, pick_rows
        from isamap.bench.cell_campaign import CellCampaign
        from isamap.bench.cell_libraries import CELL_BASELINES
        from isamap.bench.cells import cell_cases
        from isamap.bench.libraries import HOLDS
        from isamap.driver.inputs import find_profile

        chosen = read_choice(suite, "--suite", SUITE_WORDS)
        most = None if steps == "all" else int(read_number(steps, "--steps", 1, 1500))
        named = against.split(",") if against else CELL_BASELINES
        campaign = CellCampaign(
            cases=pick_rows(cell_cases(cell, most, SUITES if chosen == "all" else (chosen,)), rows),
            form=read_choice(dtype, "--dtype", DTYPES),
            machine=machine_of(hw),
            against=tuple(read_choice(word, "--against", CELL_BASELINES) for word in named),
            threads=int(read_number(threads, "--threads", 1, 1024)),
            seconds=read_number(seconds, "--seconds", 0, 3600),
            limit_s=read_number(limit, "--limit", 0.1, 3600),
            hold=read_choice(hold, "--hold", tuple(HOLDS)) if hold else None,
            folder=Path(output) if output else None,
            resume=resume,
            profile=find_profile(profile, machine_of(hw)),
        )
        return _answer(cell, campaign)

    command.__doc__ = f"Time DeepBench's {about} beside the installed libraries, step by step verified."
    return command


gru_command = _command("gru", "GRU layers")
lstm_command = _command("lstm", "LSTM layers")
rnn_command = _command("rnn", "vanilla recurrent layers")


def _answer(cell: str, campaign: CellCampaign) -> Answer:
    from isamap.bench.cell_campaign import cells_summary, cells_table, place_text, run_cells, summary_line

    with Progress() as progress:
        found, where = run_cells(campaign, progress)
    summary = cells_summary(found)
    threads = f"{campaign.threads} thread{'s' if campaign.threads > 1 else ''}"
    title = f"DeepBench {cell} on {campaign.machine}, {threads}"
    lines = [title, place_text(where), "", cells_table(found), "", summary_line(summary)]
    text = "\n".join(lines) + "\n"
    if campaign.folder is not None:
        replace_file(campaign.folder / "table.txt", text.encode(), durable=True)
    payload: dict[str, object] = {
        "environment": where,
        "cell": cell,
        "rows": [row.as_json() for row in found],
        "summary": asdict(summary),
    }
    wrong = any(row.left_out == "isamap's result is wrong" for row in found)
    return Answer(payload, text, exit=1 if wrong else 0)
