"""Machines as callers from Python name them: by a shipped name, a path, or "host"."""

from __future__ import annotations

from pathlib import Path

from isamap.driver.given import given_word
from isamap.driver.inputs import machine_of as machine_called
from isamap.machine import Machine
from isamap.machine import load_machine as load_named


def load_machine(machine: str | Path) -> Machine:
    """The machine of a shipped name, a path ending in .yaml, or "host". Raises: UsageProblem, SpecProblem."""
    return load_named(machine_of(machine))


def machine_of(machine: str | Path) -> str:
    """The machine's name, or path, "host" resolved. Raises: UsageProblem."""
    return machine_called(given_word("machine", machine, "a name or a path"))
