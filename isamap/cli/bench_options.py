"""The options of `isamap bench`."""

from __future__ import annotations

from typing import Annotated

import typer

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
