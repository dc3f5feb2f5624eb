"""`isamap hw schema`: the JSON Schema by which editors complete and check descriptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from isamap.cli.answers import Answer, write_text
from isamap.cli.options import AsJson
from isamap.machine.schema import machine_schema


def schema_command(
    output: Annotated[
        str | None,
        typer.Option(
            "-o", metavar="FILE", help="Write here instead of to standard output.", show_default=False
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file that is there.")] = False,
    as_json: AsJson = False,
) -> Answer:
    """Print the JSON Schema of machine descriptions, for editors."""
    schema = machine_schema()
    text = json.dumps(schema, indent=2)
    if output is None:
        return Answer({"json_schema": schema}, text)
    write_text(Path(output), f"{text}\n", overwrite=overwrite)
    return Answer({"json_schema": schema, "file": output}, f"wrote {output}")
