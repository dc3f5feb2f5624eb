"""Read kernels, machines and other files as users name them. A misspelt name gets the nearest one.

Choose a profile of measured parameters: none, a file, the newest measured here, or the shipped one.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, cast

from isamap.driver.options import given_word
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import machine_digest
from isamap.machine.processor import this_cpu
from isamap.source import Source, UsageProblem, did_you_mean, read_limited, replace
from isamap.tune.store import newest_profile, read_profile, shipped_profile

if TYPE_CHECKING:
    from isamap.machine import Machine
    from isamap.tune.profile import Profile


MAX_BYTES = 1 << 20
STDIN = "<stdin>"


def read_kernel(word: str) -> Source:
    """Return the text of a kernel: a shipped name, the path of an .ir file, or `-`. Raises: UsageProblem."""
    if word == "-":
        return Source(STDIN, _decode(STDIN, sys.stdin.buffer.read(MAX_BYTES + 1)))
    return named_kernel(word)


def named_kernel(word: str) -> Source:
    """Return the text of a kernel: a shipped name, or the path of an .ir file. Raises: UsageProblem."""
    if word in list_kernels():
        return read_file(kernel_path(word), f"{word}.ir")
    if word.endswith((".onnx", ".json")):
        said = f"{word} is a model, and this command is about one kernel"
        advice = "`isamap import` writes its kernels as files; `isamap compile --report -` has its layers"
        raise UsageProblem.of("unknown-kernel", said, help=advice)
    if word.endswith(".ir") or "/" in word:
        return read_file(Path(word), word)
    raise UsageProblem.of(
        "unknown-kernel",
        f"there is no kernel called `{word[:80]}`",
        notes=("`isamap match kernels --hw MACHINE` lists the shipped ones; a path ends in .ir",),
        help=did_you_mean(word, list_kernels()),
    )


def read_file(path: Path, name: str) -> Source:
    """Return a text file of at most 1 MB. Raises: UsageProblem."""
    try:
        data = read_limited(path, MAX_BYTES)
    except (OSError, ValueError) as error:  # a ValueError where the name holds a zero character
        said = getattr(error, "strerror", None) or str(error)
        raise UsageProblem.of(
            "file-unreadable", f"{name} cannot be read: {said}", help=did_you_mean(path.name, _siblings(path))
        ) from None
    return Source(name, _decode(name, data))


def given_text(name: str, value: object, what: str) -> Source | Path | str:
    """Return a file name or a source text. A word with braces or several lines is a text. Raises: UsageProblem."""
    if isinstance(value, PathLike):
        return Path(cast("PathLike[str]", value))
    word = given_word(name, value, what)
    if "{" not in word and "\n" not in word:
        return word
    try:
        data = word.encode("utf-8")
    except UnicodeEncodeError as error:
        said = f"{name} is not UTF-8 text: character {error.start} is {word[error.start]!a}"
        raise UsageProblem.of("file-not-text", said) from None
    if len(data) > MAX_BYTES:
        raise UsageProblem.of("file-too-large", f"{name} is larger than 1 MB")
    return Source(name, word)


def load_machine(machine: str | Path) -> Machine:
    """Return the machine of a shipped name, a path ending in .yaml, or "host". Raises: UsageProblem, SpecProblem."""
    from isamap.machine import load_machine as load_named

    return load_named(machine_of(machine))


def machine_of(machine: str | Path) -> str:
    """Return the name or path of a machine. `host` is the shipped one that fits this computer best.

    Raises: UsageProblem.
    """
    word = given_word("machine", machine, "a name or a path")
    if word != "host":
        return word
    from isamap.machine import detect_machine

    return detect_machine()


def _siblings(path: Path) -> list[str]:
    try:
        return [p.name for p in path.parent.iterdir() if p.name != path.name]
    except (OSError, ValueError):
        return []


def _decode(name: str, data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise UsageProblem.of("file-too-large", f"{name} is larger than 1 MB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        said = f"{name} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}"
        raise UsageProblem.of("file-not-text", said) from None


NONE, DEFAULT = "none", "default"
ENVIRONMENT = "ISAMAP_PROFILE"
"""The environment variable that defines `default`: `none`, or a file."""


def find_profile(word: str, machine: str) -> Profile | None:
    """Return the profile that a word names, or None for `none` and for a missing `default`.

    The default is the newest one measured here for this machine, else the one shipped for the processor.

    Raises: UsageProblem if a file is not a profile, damaged, or of another machine or processor.
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
    """Return the machine with measured parameters instead of the stated ones."""
    return machine if profile is None else _apply_profile(machine, profile)


@lru_cache(maxsize=8)
def _apply_profile(machine: Machine, profile: Profile) -> Machine:
    """Return the machine with a profile's parameters: the same object for the same profile."""
    from isamap.tune.overlay import lay_over
    from isamap.tune.store import check_names

    # Else it is shipped, for all machines that share its memories.
    if profile.machine_digest == machine.digest:
        check_names(profile, machine)
    here = profile.cpu.key == this_cpu().key
    figures = "measured on this processor" if here else f"shipped for {profile.cpu.family}"
    return replace(lay_over(machine, profile), figures=figures)
