"""Machines and their summaries that are read and checked once, until a text or isamap changes.

`load_machine("generic-c")` reads one file. `load_machine("x86-amx")` reads it and all that it extends. Loading
checks a description. A machine without errors is cached under the digest of its texts and of this program, so
that another process parses neither YAML nor the language again. A cached machine is checked against the types
of its fields and the digest; if one differs, the texts are read again. An error in this module may return
outdated machines.

A stamp in the caller's folder stores the summary of a machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from isamap.machine.chain import (
    HEADER_END,
    File,
    digest_at,
    digest_files,
    machine_digest,
    read_chain,
    split_word,
)
from isamap.machine.tree import read_tree
from isamap.source import asdict, dataclass, read_json, read_limited, replace, replace_file
from isamap.source.cache import digest, program_state, recall_or_make
from isamap.source.codec import read_value, write
from isamap.source.process import full_collection_put_off

if TYPE_CHECKING:
    from isamap.machine.model import Machine

MOST_STAMP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class MachineSummary:
    """The counts and lint warnings of a checked machine, as JSON and as text. `digest` is the machine's."""

    name: str
    summary: str
    chain: tuple[str, ...]
    memories: int
    units: int
    instructions: int
    digest: str
    warnings: tuple[tuple[Mapping[str, Any], str], ...] = ()


MACHINES = "machines"


@full_collection_put_off()  # a thousand instructions are many objects, nearly all of which stay
def load_machine(name_or_path: str) -> Machine:
    """Return the machine of a shipped name, a path ending in .yaml, or `-` for standard input.

    With `@Q=8` behind it, at that value of its constant Q; with `@Q=2,4,8` at one of them, and it serves all.
    Raises: UsageProblem if there is none, SpecProblem with every finding of the first file that is bad.
    """
    word, given = split_word(name_or_path)
    machine = _load(read_chain(word, HEADER_END), word)
    return _at(machine, tuple(sorted(given.items())), name_or_path) if given else machine


@lru_cache(maxsize=128)
def _at(machine: Machine, given: tuple[tuple[str, tuple[int, ...]], ...], word: str) -> Machine:
    """Return a machine whose constants have given values: the same object for the same values."""
    from isamap.machine.lengths import at_given

    return replace(at_given(machine, dict(given)), word=word, digest=digest_at(machine.digest, dict(given)))


@lru_cache(maxsize=128)
def _load(files: tuple[File, ...], word: str) -> Machine:
    """Return the machine of a chain of texts, named `word`: the same object for the same texts and word."""

    def read_texts() -> Machine:
        from isamap.machine.load import load_files  # brings YAML and the language

        for file in files:
            read_tree(file.source)
        return load_files(files, word)

    found = recall_or_make(
        MACHINES,
        digest(program_state(), digest_files(files)),
        lambda data: restore_machine(data, files),
        read_texts,
        lambda machine: write(machine, [file.source for file in files]).encode(),
    )
    return replace(found, word=word)


def restore_machine(data: bytes, files: tuple[File, ...]) -> Machine | None:
    """Return the machine of these files that was cached as `data`, or None if the data is invalid."""
    from isamap.machine.model import Machine  # brings numpy

    try:
        found = read_value(data, [file.source for file in files])
    except ValueError:
        return None
    return found if isinstance(found, Machine) and found.digest == digest_files(files) else None


def check_machine(name_or_path: str, stamps: Path | None = None) -> MachineSummary:
    """Return the summary of a correct machine description. `stamps` is the folder that caches it.

    Raises: as `load_machine`.
    """
    if stamps is None:
        return load_summary(name_or_path)
    stamp = stamps / f"{digest(program_state(), machine_digest(name_or_path))}.json"
    if (remembered := _read_stamp(stamp)) is not None:
        return remembered
    summary = load_summary(name_or_path)
    _write(stamp, summary)
    return summary


def load_summary(name_or_path: str) -> MachineSummary:
    """Return the summary of a machine that is checked now. Raises: as `load_machine`."""
    from isamap.machine.lint import find_warnings  # brings the language and numpy

    m = load_machine(name_or_path)
    odd = tuple((d.as_json(), d.render()) for d in find_warnings(m))
    return MachineSummary(
        m.name, m.summary, m.chain, len(m.memories), len(m.units), len(m.instructions), m.digest, odd
    )


def _read_stamp(stamp: Path) -> MachineSummary | None:
    """Return the summary in a stamp, or None if there is none, or if the stamp is incomplete."""
    try:
        stored: Any = read_json(read_limited(stamp, MOST_STAMP_BYTES), finite=False)
        fields = cast("dict[str, Any]", stored["summary"])
        if stored["sha256"] != _digest(fields):
            return None
        fields["chain"] = tuple(fields["chain"])
        fields["warnings"] = tuple((told, text) for told, text in fields["warnings"])
        return MachineSummary(**fields)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(stamp: Path, summary: MachineSummary) -> None:
    """Write a stamp atomically. If the folder cannot be written, the check is repeated next time."""
    fields = asdict(summary)
    try:
        stamp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(stamp, json.dumps({"summary": fields, "sha256": _digest(fields)}).encode(), 0o600)
    except OSError:
        return


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
