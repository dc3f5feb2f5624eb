"""Machines and their summaries that are read and checked once, until a text or isamap changes.

`load_machine("generic-c")` reads one file. `load_machine("x86-amx")` reads it and all that it extends. Loading
checks a description. A machine without errors is cached under the digest of its texts and of this program, so
that another process parses neither YAML nor the language again. A cached machine is checked against the types
of its fields and the digest; if one differs, the texts are read again. An error in this module may return
outdated machines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from isamap.machine import chain as chains
from isamap.machine.tree import read_tree
from isamap.source import asdict, dataclass, read_json, replace
from isamap.source.cache import digest, program_state, recall_or_make
from isamap.source.codec import read_as, write
from isamap.source.process import full_collection_put_off

if TYPE_CHECKING:
    from isamap.machine.model import Machine


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
SUMMARIES = "checked"


@full_collection_put_off()  # a thousand instructions are many objects, nearly all of which stay
def load_machine(name_or_path: str) -> Machine:
    """Return the machine of a shipped name, a path ending in .yaml, or `-` for standard input.

    With `@Q=8` behind it, at that value of its constant Q; with `@Q=2,4,8` at one of them, and it serves all.
    Raises: UsageProblem if there is none, SpecProblem with every finding of the first file that is bad.
    """
    word, given = chains.split_word(name_or_path)
    machine = _load(chains.read_chain(word, chains.HEADER_END), word)
    return _fix_constants(machine, tuple(sorted(given.items())), name_or_path) if given else machine


@lru_cache(maxsize=128)
def _fix_constants(machine: Machine, given: tuple[tuple[str, tuple[int, ...]], ...], word: str) -> Machine:
    """Return the machine with constants at given values. Equal values give the same object."""
    from isamap.machine.lengths import at_given

    return replace(
        at_given(machine, dict(given)), word=word, digest=chains.digest_at(machine.digest, dict(given))
    )


@lru_cache(maxsize=128)
def _load(files: tuple[chains.File, ...], word: str) -> Machine:
    """Return the machine of a chain of texts, named `word`. Equal texts and words give the same object."""

    def read_texts() -> Machine:
        from isamap.machine.load import load_files  # brings YAML and the language

        for file in files:
            read_tree(file.source)
        return load_files(files, word)

    found = recall_or_make(
        MACHINES,
        digest(program_state(), chains.digest_files(files)),
        lambda data: restore_machine(data, files),
        read_texts,
        lambda machine: write(machine, [file.source for file in files], merges=True).encode(),
    )
    return replace(found, word=word)


def restore_machine(data: bytes, files: tuple[chains.File, ...]) -> Machine | None:
    """Return the machine of these files that was cached as `data`, or None if the data is invalid."""
    from isamap.machine.model import Machine  # brings numpy

    found = read_as(Machine, data, [file.source for file in files])
    return found if found is not None and found.digest == chains.digest_files(files) else None


def check_machine(name_or_path: str) -> MachineSummary:
    """Return the summary of a correct machine description, which is cached. Raises: as `load_machine`."""
    return recall_or_make(
        SUMMARIES,
        digest(program_state(), chains.machine_digest(name_or_path)),
        _read_summary,
        lambda: load_summary(name_or_path),
        lambda summary: json.dumps(asdict(summary)).encode(),
    )


def load_summary(name_or_path: str) -> MachineSummary:
    """Return the summary of a machine that is checked now. Raises: as `load_machine`."""
    from isamap.machine.lint import find_warnings  # brings the language and numpy

    m = load_machine(name_or_path)
    odd = tuple((d.as_json(), d.render()) for d in find_warnings(m))
    return MachineSummary(
        m.name, m.summary, m.chain, len(m.memories), len(m.units), len(m.instructions), m.digest, odd
    )


def _read_summary(data: bytes) -> MachineSummary | None:
    """Return a cached summary, or None if the data is invalid."""
    try:
        fields = cast("dict[str, Any]", read_json(data, finite=False))
        fields["chain"] = tuple(fields["chain"])
        fields["warnings"] = tuple((told, text) for told, text in fields["warnings"])
        return MachineSummary(**fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
