"""`isamap hw list` and `detect`: list the shipped machines, and find the one that fits this computer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isamap.cli.answers import Answer
from isamap.cli.option_parser import CommandOptions
from isamap.report.columns import align

if TYPE_CHECKING:
    from isamap.machine.processor import MachineHeader


def list_command(_asked: CommandOptions) -> Answer:
    """List the shipped machines, and whether this computer can run their programs."""
    from isamap.machine.processor import features_lacking, shipped_headers

    found = shipped_headers()
    lacking = {name: features_lacking(header.needed) for name, header in found.items()}
    payload = {
        "machines": [
            {
                "name": name,
                "summary": header.summary,
                "extends": list(header.chain[1:]),
                "missing": list(lacking[name]),
            }
            for name, header in found.items()
        ]
    }
    rows = [(name, _runs(header, lacking[name]), header.summary) for name, header in found.items()]
    return Answer(payload, align(rows))


def _runs(machine: MachineHeader, lacking: tuple[str, ...]) -> str:
    """Return how this computer runs programs for a machine."""
    if machine.emulator is not None:
        return f"under {machine.emulator}"
    if lacking:
        return f"lacks {', '.join(lacking)}"
    return "as a model" if machine.run != "native" else "runs here"


def detect_command(_asked: CommandOptions) -> Answer:
    """Show which shipped machine this computer is."""
    from isamap.machine import detect_features, detect_machine

    name, features = detect_machine(), sorted(detect_features())
    return Answer({"machine": name, "features": features}, f"{name}\n{' '.join(features)}")
