"""Read the emulator that a description names, and the processor model that it emulates.

A description is not trusted. It names an emulator of a processor family, never a path, and a processor
model by a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from isamap.machine import allowed
from isamap.machine.fields import read_text
from isamap.machine.tree import Findings, Node

# A processor model, possibly followed by switches: `rv64,v=true,vlen=64*Q`, where Q is a constant of the machine.
_CPU = re.compile(
    r"[a-zA-Z0-9][a-zA-Z0-9_.+-]*(,[a-z0-9][a-z0-9_.-]*=([a-z0-9]+|[0-9]{1,4}\*[A-Z][A-Za-z0-9_]*))*"
)
_MULTIPLE = re.compile(r"([0-9]+)\*([A-Z][A-Za-z0-9_]*)")


def cpu_at(cpu: str | None, values: Mapping[str, int]) -> str | None:
    """Return the model of a processor at values of the machine's constants."""
    return cpu and _MULTIPLE.sub(lambda m: str(int(m[1]) * values.get(m[2], 1)), cpu)


def read_emulator(node: Node | None, findings: Findings) -> str | None:
    """Return the emulator that a target names, or None, with a finding, if no family lists it."""
    text = read_text(node, "`emulator`", findings)
    if text is None or text.text in allowed.emulators():
        return text.text if text is not None else None
    findings.unknown("unknown-emulator", "emulator", text.text, text.span, tuple(allowed.emulators()))
    return None


def read_cpu(node: Node | None, findings: Findings) -> str | None:
    """Return the processor model that a target names, or None, with a finding, if it is invalid."""
    text = read_text(node, "`cpu`", findings)
    if text is None or _CPU.fullmatch(text.text):
        return text.text if text is not None else None
    findings.report(
        "unknown-cpu", f"`{text.text}` is not a model of a processor", text.span,
        "a name, and switches behind it, as `max,sve256=on` or `rv64,v=true,vlen=64*Q`",
    )  # fmt: skip
    return None
