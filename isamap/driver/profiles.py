"""Which profile a compilation uses: none, a file, the newest measured here, or the one that is shipped."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.machine import machine_digest
from isamap.machine.cpu import this_cpu
from isamap.tune.shipped import shipped_profile
from isamap.tune.store import newest_profile, read_profile

if TYPE_CHECKING:
    from isamap.machine import Machine
    from isamap.tune.profile import Profile

NONE, DEFAULT = "none", "default"
ENVIRONMENT = "ISAMAP_PROFILE"
"""The variable that says what `default` stands for: `none`, or a file."""


def find_profile(word: str, machine: str) -> Profile | None:
    """The profile that a word names; None for `none`, and for `default` where nothing is known.

    By default it is the newest that was measured here of this machine, else what is shipped for the
    processor.

    Raises: UsageProblem when a file is no profile, damaged, or of another machine or processor.
    """
    if word == DEFAULT:
        word = os.environ.get(ENVIRONMENT) or DEFAULT
    match word:
        case "none":
            return None
        case "default":
            return newest_profile(machine_digest(machine)) or shipped_profile(machine)
        case _:
            return read_profile(Path(word), machine_digest(machine))


def with_profile(machine: Machine, profile: Profile | None) -> Machine:
    """The machine with measured figures in the place of stated ones."""
    if profile is None:
        return machine
    from isamap.tune.overlay import lay_over
    from isamap.tune.store import check_names

    # Else it is shipped, for all machines that share its memories.
    if profile.machine_digest == machine.digest:
        check_names(profile, machine)
    here = profile.cpu.key == this_cpu().key
    figures = "measured on this processor" if here else f"shipped for {profile.cpu.family}"
    return replace(lay_over(machine, profile), figures=figures)
