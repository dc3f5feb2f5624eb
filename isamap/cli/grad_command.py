"""`isamap grad`: the kernel that computes another one's derivatives, as text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isamap.cli.answers import Answer, write_text
from isamap.cli.options import AsJson, KernelName


def grad_command(
    kernel: KernelName,
    of: Annotated[
        str | None,
        typer.Option("--of", metavar="NAMES", help="Results, with commas between; all of floats by default."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="NAMES", help="Inputs, with commas between; all of floats by default."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", metavar="FILE", help="Write it there.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> Answer:
    """Write the kernel that computes the derivatives of a kernel's results by its inputs."""
    from isamap.adjoint import gradient
    from isamap.driver.inputs import read_kernel
    from isamap.ir import print_routine
    from isamap.syntax import parse_kernel

    made = gradient(parse_kernel(read_kernel(kernel)), _names(of), _names(by))
    text = print_routine(made)
    if output is not None:
        write_text(Path(output), text, overwrite=False)
    inputs = [o.name for o in made.operands if o.role == "in"]
    outputs = [o.name for o in made.operands if o.role == "out"]
    payload = {"kernel": made.name, "inputs": inputs, "outputs": outputs, "text": text, "file": output}
    return Answer(payload, text if output is None else f"{made.name}: {output}")


def _names(words: str | None) -> list[str]:
    return [word.strip() for word in words.split(",")] if words else []
