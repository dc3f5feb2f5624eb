"""Profiles that isamap ships: what was measured on one processor stands for its family.

They are used for shipped machines only: a description that a user writes states its figures itself.
"""

from __future__ import annotations

from functools import lru_cache

from isamap.hw_specs import profile_path, shipped_machines
from isamap.machine.chain import HEADER_END, read_chain
from isamap.machine.processor import this_cpu
from isamap.source import Source
from isamap.tune.profile import Profile, parse_profile


def shipped_profile(machine: str) -> Profile | None:
    """The profile of this processor's family that was measured of a machine, or of one that extends it."""
    if machine not in shipped_machines():
        return None
    profile = family_profile(this_cpu().family)
    if profile is None:
        return None
    chain = {file.stem for file in read_chain(profile.machine, HEADER_END)}
    return profile if machine in chain else None


@lru_cache(maxsize=4)
def family_profile(family: str) -> Profile | None:
    """The profile that is shipped for a family of processors (`Cpu.family`); None where there is none."""
    path = profile_path(family)
    if path is None:
        return None
    return parse_profile(Source(str(path), path.read_text(encoding="utf-8")))
