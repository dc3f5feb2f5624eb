"""What random instructions and kernels compute, without subscripts: trees over operands of given types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """A statement's shape: its value over operands 0, 1, … by type and place, and what may reduce it.

    `again` are operands that are read once more, at other subscripts: these reads count on from the operands.
    """

    value: str
    types: tuple[str, ...]
    ops: tuple[str, ...] = ("+=",)
    result: str = "f32"
    again: tuple[int, ...] = ()

    @property
    def owners(self) -> tuple[int, ...]:
        """The operand that each read is of."""
        return (*range(len(self.types)), *self.again)

    def text(self, operands: Sequence[str]) -> str:
        return self.value.format(*operands)


EVERY = ("=", "+=", "max=", "min=")
F32, BF16, I8 = ("f32",), ("bf16",), ("i8",)

FORMS = (
    Form("{0} * {1}", F32 * 2, EVERY),
    Form("{1} * {0}", F32 * 2),
    Form("f32({0}) * f32({1})", BF16 * 2),
    Form("i32({0}) * i32({1})", I8 * 2, result="i32"),
    Form("i32({0}) * i32({1})", ("u8", "i8"), result="i32"),
    Form("i32({1}) * i32({0})", ("u8", "i8"), result="i32"),
    Form("i32({0}) * i32({1})", ("i16", "i16"), result="i32"),
    Form("{0}", F32, EVERY),
    Form("f32({0})", BF16, ("=", "+=")),
    Form("f32({0})", I8, ("=", "+=")),
    Form("{0} + {1}", F32 * 2, EVERY),
    Form("{0} - {1}", F32 * 2, EVERY),
    Form("max({0}, {1})", F32 * 2, EVERY),
    Form("max({0}, 0)", F32, ("=", "+=")),
    Form("{0} * 2", F32, ("=", "+=", "max=")),
    Form("{0} * {0}", F32),
    Form("{0} * {0} + {1}", F32 * 2, ("=", "+=")),
    Form("{0} * {1} + {2}", F32 * 3, ("=", "+=")),
    Form("{0} * {1} * {2}", F32 * 3),
    Form("({0} + {1}) * ({0} + {2})", F32 * 3),
    Form("select({0} > {1}, {0}, {1})", F32 * 2, ("=", "max=")),
    Form("alpha * {0}", F32, ("=", "+=")),
    Form("alpha * {0} * {1}", F32 * 2),
    Form("f32(i) * {0}", F32, ("=", "+=")),
    Form("f32(beta) * {0}", F32, ("=", "+=")),
    Form("{0} + {1}", F32, EVERY, again=(0,)),
    Form("{0} * {1}", F32, EVERY, again=(0,)),
    Form("{0} - {1}", F32, ("=", "+="), again=(0,)),
    Form("f32({0}) * f32({1})", BF16, again=(0,)),
    Form("{0} * {1} - {2} * {3}", F32 * 2, ("=", "+="), again=(0, 1)),
    Form("{0} * {1} - {2} * {3}", F32 * 4, ("=", "+=")),
    Form("max({0}, {1}) + {2}", F32 * 2, ("=", "+="), again=(0,)),
)

RELATED = (
    *((n, n) for n in range(len(FORMS))),
    *((0, n) for n in (0, 0, 1, 14, 15, 17, 18, 21, 22)),
    *((2, n) for n in (2, 2, 2)),
    *((n, m) for n in (3, 4, 5, 6) for m in (3, 4, 5)),
    *((7, n) for n in (0, 10, 17)),
    *((n, 0) for n in (1, 15, 21)),
    *((8, 9), (10, 16), (10, 17), (12, 13), (16, 17), (17, 16), (18, 22), (21, 14), (22, 18)),
    *((n, 23) for n in (0, 21, 24)),
    *((n, n) for n in (25, 25, 25, 26, 26, 26, 27, 27, 28, 29, 29, 31)),
    *(
        (25, 10),
        (25, 10),
        (26, 0),
        (26, 0),
        (27, 11),
        (28, 2),
        (29, 30),
        (26, 15),
        (10, 25),
        (0, 26),
        (30, 29),
    ),
)
"""Forms of an instruction and of a kernel that it may perform, as positions in `FORMS`."""
