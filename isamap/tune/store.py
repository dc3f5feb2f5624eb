"""Store profiles: files in the user's data folder, one for each calibration, and shipped profiles.

A file's name contains machine, description, processor and time. It is written under a temporary name and
then renamed, so that a process may be killed at any moment.

A shipped profile was measured on one processor and is used for its family, on shipped machines only. A
description that a user writes states its parameters itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.hw_specs import profile_path, shipped_machines
from isamap.machine.chain import HEADER_END, read_chain
from isamap.machine.processor import Cpu, this_cpu
from isamap.source import OnlyWarned, Source, UsageProblem, cannot_write, read_limited, replace_file
from isamap.source.cache import private_folder
from isamap.tune.profile import Profile, parse_profile, print_profile

if TYPE_CHECKING:
    from isamap.machine import Machine


MAX_BYTES = 16 << 20


def data_path() -> Path:
    """Return the user's data folder, which may not exist. `ISAMAP_DATA_DIR` names another one."""
    given = os.environ.get("ISAMAP_DATA_DIR")
    if given:
        return Path(given)
    from platformdirs import user_data_path

    return user_data_path("isamap", appauthor=False)


def safe(folder: Path) -> Path:
    """Return the data folder, created if missing. Raises: Unkept; UsageProblem if others may write to it."""
    return private_folder(folder, "data", "ISAMAP_DATA_DIR")


def keep_profile(profile: Profile, path: Path | None = None) -> Path:
    """Write a profile atomically, by default to the data folder, and return its path.

    Raises: UsageProblem if it cannot be written.
    """
    if path is None:
        stem = _stem(profile.machine, profile.machine_digest, profile.cpu)
        path = safe(data_path()) / "profiles" / f"{stem}{_time(profile)}.json"
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(path, print_profile(profile).encode(), 0o600)
    except OSError as error:
        raise cannot_write(path, error) from None
    return path


def newest_profile(machine_digest: str) -> Profile | None:
    """Return the newest profile of a machine on this processor, or None if there is none.

    Raises: UsageProblem if it is damaged, or the folder belongs to others.
    """
    path = newest_path(machine_digest)
    return read_profile(path, machine_digest) if path is not None else None


def newest_path(machine_digest: str) -> Path | None:
    """Return the path of the newest profile of a machine on this processor, or None."""
    folder = data_path() / "profiles"
    if not os.path.isdir(folder):
        return None
    of_machine = f"-{machine_digest[:12]}-"
    found: list[Path] = []
    with OnlyWarned():
        safe(folder.parent)
        found = [p for p in folder.iterdir() if not p.name.startswith(".") and of_machine in p.name]
    if not found:  # without asking what processor this is, which may take a while
        return None
    here = [p for p in found if f"{of_machine}{this_cpu().key[:12]}-" in p.name]
    return max(here, key=lambda p: p.stem.rpartition("-")[2], default=None)


def read_profile(path: Path, machine_digest: str) -> Profile:
    """Return a profile that fits a machine and this processor. Raises: UsageProblem with the reason."""
    try:
        data = read_limited(path, MAX_BYTES)
        text = data.decode("utf-8") if len(data) <= MAX_BYTES else ""
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageProblem.of("profile-unreadable", f"{path} cannot be read: {said}") from None
    profile = parse_profile(Source(str(path), text))
    check_fits(profile, machine_digest, str(path))
    return profile


def check_fits(profile: Profile, machine_digest: str, name: str) -> None:
    """Check that a profile was measured on this processor for this machine. Raises: UsageProblem."""
    if profile.machine_digest != machine_digest:
        raise UsageProblem.of(
            "profile-other-machine",
            f"{name} was measured of another machine, or of another version of its description",
            notes=(
                f"measured of {profile.machine}, whose texts have digest {profile.machine_digest[:12]}",
                f"the texts of this one have {machine_digest[:12]}",
            ),
            help="measure again with `isamap hw calibrate`, or say `--profile none`",
        )
    if profile.cpu.key != this_cpu().key:
        raise UsageProblem.of(
            "profile-other-cpu",
            f"{name} was measured on another processor: {profile.cpu.describe()}",
            notes=profile.cpu.differences(this_cpu()),
            help=f"measure here with `isamap hw calibrate {profile.machine}`, or say `--profile none`",
        )


def _stem(machine: str, digest: str, cpu: Cpu) -> str:
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', machine)}-{digest[:12]}-{cpu.key[:12]}-"


def _time(profile: Profile) -> str:
    return re.sub(r"[^0-9]", "", profile.when.partition("+")[0])


def check_names(profile: Profile, machine: Machine) -> None:
    """Check that a machine has all memories and instructions of a profile. Raises: UsageProblem."""
    instructions = {**machine.instructions, **machine.hints}
    for figure in profile.instructions:
        _check_known("instruction", figure.instruction, instructions)
    for band in profile.bandwidths:
        _check_known("instruction", band.instruction, instructions)
        _check_known("memory", band.memory, machine.memories)
    for cache in profile.caches:
        _check_known("memory", cache.memory, machine.memories)


def _check_known(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise UsageProblem.of(
            "profile-other-machine",
            f"the profile names the {what} `{name[:40]}`, which its machine does not have",
            help="measure again with `isamap hw calibrate`, or say `--profile none`",
        )


def shipped_profile(machine: str) -> Profile | None:
    """Return the profile of this processor's family for a machine, or for one that extends it, or None."""
    if machine not in shipped_machines():
        return None
    profile = family_profile(this_cpu().family)
    if profile is None:
        return None
    chain = {file.stem for file in read_chain(profile.machine, HEADER_END)}
    return profile if machine in chain else None


@lru_cache(maxsize=4)
def family_profile(family: str) -> Profile | None:
    """Return the profile that is shipped for a family of processors (`Cpu.family`), or None if there is none."""
    path = profile_path(family)
    if path is None:
        return None
    return parse_profile(Source(str(path), path.read_text(encoding="utf-8")))
