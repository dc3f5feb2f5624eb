"""`isamap hw schema`: the JSON Schema by which editors complete and check descriptions."""

from __future__ import annotations

import json
from pathlib import Path

from isamap.cli.answers import Answer, write_text
from isamap.cli.option_parser import CommandOptions, flag, one_word
from isamap.machine.spec import machine_schema
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions(CommandOptions):
    """The options of `hw schema`."""

    output: str | None = one_word("-o", "FILE", "Write here instead of to standard output.")
    overwrite: bool = flag("--overwrite", "Replace the file that is there.")


def schema_command(asked: SchemaOptions) -> Answer:
    """Print the JSON Schema of machine descriptions, for editors."""
    schema, output = machine_schema(), asked.output
    text = json.dumps(schema, indent=2)
    if output is None:
        return Answer({"json_schema": schema}, text)
    write_text(Path(output), f"{text}\n", overwrite=asked.overwrite)
    return Answer({"json_schema": schema, "file": output}, f"wrote {output}")
