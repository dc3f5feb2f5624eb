"""The options of `isamap match`."""

from __future__ import annotations

from typing import Annotated

import typer

MachineNames = Annotated[
    list[str],
    typer.Option(
        "--hw",
        metavar="MACHINE",
        help="A shipped machine's name, `host`, or the path of a description; several give a matrix.",
        show_default=False,
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say why the other instructions do not match, nearest first.")
]
Variants = Annotated[
    bool, typer.Option("--variants", help="List fusion orders, cuts and tails, with what each moves.")
]
CountWord = Annotated[
    str,
    typer.Option(
        "--count",
        metavar="MODE",
        help="complete; fixed: operands paired as they are written; amos: what AMOS's code finds.",
    ),
]
InstructionName = Annotated[
    str | None,
    typer.Option("--instruction", metavar="NAME", help="Of this instruction only.", show_default=False),
]
FixKernel = Annotated[bool, typer.Option("--fix", help="Edit the kernel as the nearest refusal says.")]
TransformWord = Annotated[
    str | None,
    typer.Option(
        "--transform",
        metavar="[N]",
        help="Rewrite the kernel so that more matches: the best way, or way N of those listed.",
        show_default=False,
    ),
]
KernelFile = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where --fix and --transform write the kernel; - prints it alone.",
        show_default=False,
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace FILE where it exists.")]
Everything = Annotated[bool, typer.Option("--all", help="Print everything, however much.")]
