"""Mark the functions of a C file with the attributes that a machine's target requires.

For a machine whose instructions work in a special mode:

    static inline void load_tile_0(const float *a, int64_t a_s0) __arm_streaming __arm_inout("za") {
    __arm_locally_streaming __arm_new("za") int gemm(const gemm_args *args, …) {

Only functions of the file call the first one, with values in registers. Callers outside call the second; a
function whose address is passed on is treated like it. A head starts at the beginning of a line and ends in
`) {`; all writers of C in this package keep to that.
"""

from __future__ import annotations

import re

from isamap.machine.target_fields import Attributes

_HEAD = re.compile(r"^(?P<words>[A-Za-z][^;{]*\)) \{$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"__attribute__\(\([^;{]*?\)\)")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\(")


def with_attributes(source: str, attributes: Attributes) -> str:
    """Return the file with its functions marked: those that it calls itself behind their heads, others in front."""

    def marked(head: re.Match[str]) -> str:
        words = head["words"]
        name = _NAME.search(_ATTRIBUTE.sub("", words))
        is_own = words.startswith("static ") and name is not None and not _is_handed_on(name[1], source)
        if is_own:
            return " ".join([words, *attributes.within, "{"])
        return " ".join([*attributes.entered, words, "{"])

    return _HEAD.sub(marked, source) if attributes.entered or attributes.within else source


def _is_handed_on(name: str, source: str) -> bool:
    """Return whether a function is mentioned without being called."""
    return re.search(rf"\b{name}\b(?!\()", source) is not None
