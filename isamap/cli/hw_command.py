"""`isamap hw list` and `detect`: list the described machines, and find the one that fits this computer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isamap.cli.answers import Answer
from isamap.cli.option_parser import CommandOptions
from isamap.report.columns import align

if TYPE_CHECKING:
    from isamap.machine import Machine


def list_command(_asked: CommandOptions) -> Answer:
    """List the machines that are shipped, and whether this computer can run them."""
    from isamap.machine import list_machines, load_machine, missing_features

    machines = [load_machine(name) for name in list_machines()]
    lacking = {m.name: missing_features(m) for m in machines}
    payload = {
        "machines": [
            {
                "name": m.name,
                "summary": m.summary,
                "extends": list(m.chain[1:]),
                "missing": list(lacking[m.name]),
            }
            for m in machines
        ]
    }
    return Answer(payload, align([(m.name, _runs(m, lacking[m.name]), m.summary) for m in machines]))


def _runs(machine: Machine, lacking: tuple[str, ...]) -> str:
    """Return how this computer runs programs for a machine."""
    if machine.target.emulator is not None:
        return f"under {machine.target.emulator}"
    if lacking:
        return f"lacks {', '.join(lacking)}"
    return "as a model" if machine.target.run != "native" else "runs here"


def detect_command(_asked: CommandOptions) -> Answer:
    """Say which shipped machine this computer is."""
    from isamap.machine import detect_features, detect_machine

    name, features = detect_machine(), sorted(detect_features())
    return Answer({"machine": name, "features": features}, f"{name}\n{' '.join(features)}")
