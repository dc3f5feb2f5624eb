"""Check a description once: a passed check is cached until a text or this program changes.

Loading a machine is the check. A stamp in the caller's folder, named by the digest of everything that the
result depends on, remembers that it passed, so that a second check takes a tenth of the time.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from isamap.machine.chain import machine_digest
from isamap.source import read_json, read_limited, replace_file

_LAYERS = ("source", "ir", "syntax", "machine")


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
    warnings: tuple[tuple[dict[str, Any], str], ...] = ()


def check_machine(name_or_path: str, stamps: Path | None = None) -> MachineSummary:
    """Return the summary of a machine without mistakes; `stamps` is the folder where that is remembered.

    Raises: as `load_machine`.
    """
    if stamps is None:
        return load_summary(name_or_path)
    stamp = stamps / f"{_key(machine_digest(name_or_path))}.json"
    if (remembered := _read(stamp)) is not None:
        return remembered
    summary = load_summary(name_or_path)
    _write(stamp, summary)
    return summary


def load_summary(name_or_path: str) -> MachineSummary:
    """Return the summary of a machine that is read and checked now. Raises: as `load_machine`."""
    from isamap.machine.lint import find_warnings
    from isamap.machine.load import load_machine  # brings the language and numpy

    m = load_machine(name_or_path)
    odd = tuple((d.as_json(), d.render()) for d in find_warnings(m))
    return MachineSummary(
        m.name, m.summary, m.chain, len(m.memories), len(m.units), len(m.instructions), m.digest, odd
    )


def _key(digest: str) -> str:
    """Return a digest of the machine's texts and of the program that reads them."""
    root = Path(__file__).resolve().parents[1]
    program = hashlib.sha256(f"{digest} {sys.version}".encode())
    for layer in _LAYERS:
        for path in sorted((root / layer).iterdir()):
            if path.is_file():
                state = path.stat()
                program.update(f"{path.name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return program.hexdigest()


def _read(stamp: Path) -> MachineSummary | None:
    """Return what a stamp remembers; None when there is none, or not one that this program wrote whole."""
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
    """Write a stamp whole or not at all; a folder that cannot be written only costs time."""
    fields = asdict(summary)
    try:
        stamp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(stamp, json.dumps({"summary": fields, "sha256": _digest(fields)}).encode(), 0o600)
    except OSError:
        return


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
