"""What the functions of a file are marked with: attributes that a machine's target asks for.

Of a machine whose instructions work in a mode of their own,

    static inline void load_tile_0(const float *a, int64_t a_s0) __arm_streaming __arm_inout("za") {
    __arm_locally_streaming __arm_new("za") int gemm(const gemm_args *args, …) {

Heads stand at the beginning of a line, and end in `) {`: all writers of C here do so.
"""

from __future__ import annotations

import re

from isamap.machine.target_fields import Attributes

_HEAD = re.compile(r"^(?P<words>[A-Za-z][^;{]*\)) \{$", re.MULTILINE)
_INLINED = re.compile(r"\binline [a-z0-9_]+ \*?[A-Za-z0-9_]+\(")


def with_attributes(source: str, attributes: Attributes) -> str:
    """The file with its functions marked: those that are inlined behind their heads, all others in front."""

    def marked(head: re.Match[str]) -> str:
        words = head["words"]
        if _INLINED.search(words):
            return " ".join([words, *attributes.inlined, "{"])
        return " ".join([*attributes.entered, words, "{"])

    return _HEAD.sub(marked, source) if attributes.entered or attributes.inlined else source
