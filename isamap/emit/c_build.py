"""Settings to build emitted C: compiler flags, function attributes, and the thread pool.

Makefiles of emitted folders name the flags, and `isamap.run.toolchain` builds with them. If the instructions
of a machine need a processor mode, functions have attributes:

    static inline void load_tile_0(const float *a, int64_t a_s0) __arm_streaming __arm_inout("za") {
    __arm_locally_streaming __arm_new("za") int gemm(const gemm_args *args, …) {

Only functions of the file call the first one, with values in registers. Callers may call the other one, also
through its address. All writers of C here put a function's head at the beginning of a line and end it with `)
{`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from isamap.machine.target_fields import Attributes

_POOL = ("isamap_pool.c", "isamap_pool.h")

# -fno-math-errno: else sqrt and others stay calls that set errno. -fno-strict-aliasing: models look at one
# register as elements of several types.
COMMON_FLAGS = ("-fno-math-errno", "-fno-strict-aliasing")
# gcc 12 vectorises loops over rows with run-time strides so that it loads from one row behind the last
# (seen: gemm_bf16 on generic-c, 17x33x19, beside a guard page). Vectors are what instructions are for.
#
# Where it coalesces the versions of an integer vector, it stores every one of them to the stack as well
# (seen: 25 sums of dpbusd at 40 % of their peak; at 100 % without).
#
# Where it sinks statements, it moves sums out of a loop into the branches behind it that use them, and keeps
# them on the stack in between (seen: twice the time where another statement finishes the tile).
#
# Where it finds a memcpy in a loop over a few registers of a panel's row, it calls one for each row, or makes
# a `rep movs` of it (seen: 128 x 2560 x 2560 f32 with panels of 96 bytes at 0.84 of its speed).
#
# Where it schedules instructions, it reads a line of eight rows and then the next line of each, which a
# hardware prefetcher does not follow (seen: 1 x 128 x 20000 f32 out of memory at 0.75 of its speed).
#
# Where an iteration reads what the last one read beside it, predictive commoning keeps that in an integer
# register, out of which a broadcast takes a unit that multiplies and adds (seen: a 3x3 convolution at 0.68 of
# its speed).
COMPILER_FLAGS = {
    "gcc": (
        "-fno-tree-loop-vectorize",
        "-fno-tree-coalesce-vars",
        "-fno-tree-sink",
        "-fno-tree-loop-distribute-patterns",
        "-fno-schedule-insns2",
        "-fno-predictive-commoning",
    )
}


@cache
def pool_files() -> dict[str, str]:
    """Return the files of the pool of threads by name."""
    return {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in _POOL}


_HEAD = re.compile(r"^(?P<words>[A-Za-z][^;{]*\)) \{$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"__attribute__\(\([^;{]*?\)\)")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\(")


def with_attributes(source: str, attributes: Attributes) -> str:
    """Return the file with function attributes: after the heads of functions only called here, else in front."""

    def mark(head: re.Match[str]) -> str:
        words = head["words"]
        name = _NAME.search(_ATTRIBUTE.sub("", words))
        is_own = words.startswith("static ") and name is not None and not _is_handed_on(name[1], source)
        if is_own:
            return " ".join([words, *attributes.within, "{"])
        return " ".join([*attributes.entered, words, "{"])

    return _HEAD.sub(mark, source) if attributes.entered or attributes.within else source


def _is_handed_on(name: str, source: str) -> bool:
    """Return whether a file takes the address of a function."""
    return re.search(rf"\b{name}\b(?!\()", source) is not None
