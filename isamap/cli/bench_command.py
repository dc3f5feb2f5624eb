"""`isamap bench deepbench gemm`: emitted code beside the installed libraries, all rows of the suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isamap.cli.answers import Answer
from isamap.cli.options import AsJson, LimitSeconds, ProfileName
from isamap.cli.terminal import Progress
from isamap.cli.words import read_choice, read_number
from isamap.driver.inputs import machine_of
from isamap.source import replace_file

if TYPE_CHECKING:
    from isamap.bench.campaign import Campaign
    from isamap.bench.cases import Row


DTYPES = ("f32", "bf16", "int8")
SUITES = ("training", "inference_server", "inference_device", "all")
CACHES = ("warm", "rotate")

BenchMachine = Annotated[
    str, typer.Option("--hw", metavar="MACHINE", help="The machine to compile for; this one by default.")
]
SuiteName = Annotated[str, typer.Option("--suite", metavar="SUITE", help=f"One of {', '.join(SUITES)}.")]
DTypeName = Annotated[str, typer.Option("--dtype", metavar="TYPE", help=f"One of {', '.join(DTYPES)}.")]
RowWords = Annotated[
    str | None,
    typer.Option(
        "--rows", metavar="ROWS", help="By position: 0,3,9 or 10..20 or 0..247/5.", show_default=False
    ),
]
Beta = Annotated[
    str, typer.Option("--beta", metavar="0|1", help="1: C is read and added to; 0: only written.")
]
Packed = Annotated[
    bool, typer.Option("--packed", help="Weights are packed before, outside the clock, by all contenders.")
]
CacheMode = Annotated[
    str,
    typer.Option(
        "--cache",
        metavar="MODE",
        help="warm: the same buffers again; rotate: a ring of them, twice as large as the caches.",
    ),
]
Baselines = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="NAMES",
        help="Baselines, of torch,mkl,openblas; all by default.",
        show_default=False,
    ),
]
Hold = Annotated[
    str | None,
    typer.Option(
        "--hold",
        metavar="ISA",
        help="Hold the baselines to an instruction set: avx2, avx512, avx512_vnni.",
        show_default=False,
    ),
]
RowSeconds = Annotated[
    str,
    typer.Option("--seconds", metavar="S", help="Seconds of turns per row; each contender gets at least 7."),
]
Threads = Annotated[str, typer.Option("--threads", metavar="N", help="Threads of each contender.")]
Folder = Annotated[
    str | None,
    typer.Option("-o", metavar="FOLDER", help="Keep rows, tables and a chart there.", show_default=False),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the rows that -o holds.")]


def gemm_command(
    hw: BenchMachine = "host",
    suite: SuiteName = "all",
    dtype: DTypeName = "f32",
    rows: RowWords = None,
    beta: Beta = "1",
    threads: Threads = "1",
    cache: CacheMode = "warm",
    packed: Packed = False,
    against: Baselines = None,
    hold: Hold = None,
    seconds: RowSeconds = "4",
    limit: LimitSeconds = "10",
    profile: ProfileName = "default",
    output: Folder = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> Answer:
    """Time DeepBench's products beside the installed libraries; every row is verified first."""
    from isamap.bench import FORMS_OF_DTYPE, Campaign, gemm_cases, pick_rows, run_campaign
    from isamap.bench import SUITES as KNOWN
    from isamap.bench.libraries import BASELINES, HOLDS
    from isamap.driver.inputs import find_profile

    chosen = read_choice(suite, "--suite", SUITES)
    baselines = [read_choice(w, "--against", BASELINES) for w in against.split(",")] if against else BASELINES
    campaign = Campaign(
        cases=pick_rows(gemm_cases(KNOWN if chosen == "all" else (chosen,)), rows),
        forms=FORMS_OF_DTYPE[read_choice(dtype, "--dtype", DTYPES)],
        machine=machine_of(hw),
        against=tuple(baselines),
        threads=int(read_number(threads, "--threads", 1, 1024)),
        beta=int(read_choice(beta, "--beta", ("0", "1"))),
        cache=read_choice(cache, "--cache", CACHES),
        seconds=read_number(seconds, "--seconds", 0, 3600),
        limit_s=read_number(limit, "--limit", 0.1, 3600),
        hold=read_choice(hold, "--hold", tuple(HOLDS)) if hold else None,
        folder=Path(output) if output else None,
        resume=resume,
        profile=find_profile(profile, machine_of(hw)),
        packed=packed,
    )
    with Progress() as progress:
        found, where = run_campaign(campaign, progress)
    return _answer(campaign, found, where)


def _answer(campaign: Campaign, rows: tuple[Row, ...], where: dict[str, object]) -> Answer:
    from isamap.bench.charts import prediction_chart, ratio_chart
    from isamap.bench.predictions import agreements
    from isamap.bench.summary import dispatch_text, rows_csv, rows_table, summarise, summary_text

    summaries = summarise(rows)
    title = (
        f"DeepBench GEMM on {campaign.machine}, beta {campaign.beta}, {campaign.cache}, "
        f"{campaign.threads} thread{'s' if campaign.threads > 1 else ''}"
        f"{', weights packed before' if campaign.packed else ''}"
    )
    place = f"{where['cpu']}, cores {where['cores']}" + (
        ", a virtual machine" if where["virtual_machine"] else ""
    )
    texts = [title, place, "", rows_table(rows), "", summary_text(summaries), dispatch_text(rows)]
    text = "\n".join(texts).rstrip() + "\n"
    if campaign.folder is not None:
        replace_file(campaign.folder / "table.txt", text.encode(), durable=True)
        replace_file(campaign.folder / "rows.csv", rows_csv(rows).encode(), durable=True)
        replace_file(campaign.folder / "ratios.svg", ratio_chart(rows, title).encode(), durable=True)
        drawn = prediction_chart(rows, f"Cost model: {title}")
        replace_file(campaign.folder / "predictions.svg", drawn.encode(), durable=True)
    payload: dict[str, object] = {
        "environment": where,
        "rows": [row.as_json() for row in rows],
        "summary": [summary.as_json() for summary in summaries],
        "predictions": {"machine": campaign.machine, "agreements": [a.as_json() for a in agreements(rows)]},
    }
    wrong = any(row.left_out == "isamap's result is wrong" for row in rows)
    return Answer(payload, text, exit=1 if wrong else 0)
