"""The emulators that a description may name, and for what programs are compiled that run under them.

A description is not trusted: it names an emulator of this list, never a path, and a processor by a word.
"""

from __future__ import annotations

import re

from isamap.machine.fields import read_text
from isamap.machine.tree import Findings, Node

EMULATORS: dict[str, tuple[str, ...]] = {
    "qemu-aarch64": ("--target=aarch64-linux-musl",),
    # Without a word, zig takes LSX for granted, which older emulators lack.
    "qemu-loongarch64": ("--target=loongarch64-linux-musl", "-mcpu=generic_la64"),
    "qemu-ppc64le": ("--target=powerpc64le-linux-musl",),
    "qemu-riscv64": ("--target=riscv64-linux-musl",),
}
"""What a compiler is told to make a program that an emulator runs."""

_CPU = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.+-]*(,[a-z0-9][a-z0-9_.-]*=[a-z0-9]+)*")


def is_cpu(text: str) -> bool:
    """Whether a text names a model of a processor, with switches behind it as in `max,sve256=on`."""
    return _CPU.fullmatch(text) is not None


def read_emulator(node: Node | None, findings: Findings) -> str | None:
    """The emulator that a target names; None, with a finding, where it is none of the list."""
    text = read_text(node, "`emulator`", findings)
    if text is None or text.text in EMULATORS:
        return text.text if text is not None else None
    findings.unknown("unknown-emulator", "emulator", text.text, text.span, tuple(EMULATORS))
    return None


def read_cpu(node: Node | None, findings: Findings) -> str | None:
    """The model of a processor that a target names; None, with a finding, where it is none."""
    text = read_text(node, "`cpu`", findings)
    if text is None or is_cpu(text.text):
        return text.text if text is not None else None
    findings.report(
        "unknown-cpu", f"`{text.text}` is no model of a processor", text.span,
        "a name, and switches behind it, as `max,sve256=on`",
    )  # fmt: skip
    return None
