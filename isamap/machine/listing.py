"""Names and digests of machines, from their texts alone."""

from __future__ import annotations

import hashlib

from isamap.hw_specs import shipped_machines
from isamap.machine.chain import File, read_chain

HEADER_END = "instructions"
"""The key before which reading may stop where a machine's instructions do not matter."""


def list_machines() -> tuple[str, ...]:
    """The names of the shipped machines, sorted."""
    return shipped_machines()


def machine_digest(name_or_path: str) -> str:
    """The digest that the loaded machine has. Raises: UsageProblem, and SpecProblem for a bad header."""
    return digest_files(read_chain(name_or_path, HEADER_END))


def digest_files(files: tuple[File, ...]) -> str:
    """The sha256 of the texts of a chain and of what they are called."""
    digest = hashlib.sha256()
    for file in files:
        for text in (file.stem or "-", file.source.text):
            data = text.encode(errors="surrogatepass")  # the stem's bytes may be no UTF-8
            digest.update(f"{len(data)} ".encode() + data)
    return digest.hexdigest()
