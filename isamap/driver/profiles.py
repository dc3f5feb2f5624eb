"""Which profile a compilation uses: none, a file, or the newest that fits machine and processor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from isamap.machine import machine_digest
from isamap.tune.store import newest_profile, read_profile

if TYPE_CHECKING:
    from isamap.machine import Machine
    from isamap.tune.profile import Profile

NONE, DEFAULT = "none", "default"


def find_profile(word: str, machine: str) -> Profile | None:
    """The profile that a word names; None for `none`, and for `default` where nothing was measured.

    Raises: UsageProblem when a file is no profile, damaged, or of another machine or processor.
    """
    match word:
        case "none":
            return None
        case "default":
            return newest_profile(machine_digest(machine))
        case _:
            return read_profile(Path(word), machine_digest(machine))


def with_profile(machine: Machine, profile: Profile | None) -> Machine:
    """The machine with measured figures in the place of stated ones."""
    if profile is None:
        return machine
    from isamap.tune.overlay import lay_over
    from isamap.tune.store import check_names

    check_names(profile, machine)
    return lay_over(machine, profile)
