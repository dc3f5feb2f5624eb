"""Random kernels of several statements, as texts: loops in loops, `seq`, temporaries, copies of a statement.

Everything is chosen by a `random.Random`, so that a number names a kernel for good. Types are 32-bit
integers, in which sums are exact in every order. Many texts are refused by the verifier; `random_program`
then tries again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Kernel, bind
from isamap.source import IsamapError, Source
from isamap.syntax import parse_kernel

SIZES = ("I", "J", "K")
STEPS, STEP = "T", "t"
NUMBERS = ("2", "3")


@dataclass
class Writer:
    """A kernel while it is written: arrays with their dimensions, and lines.

    With `wide`, arrays are bf16 and accumulate in f32, and values are sums of elements.
    """

    random: Random
    wide: bool = False
    arrays: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    roles: dict[str, str] = field(default_factory=dict[str, str])

    def declare(self) -> None:
        """Some inputs, outputs and temporaries."""
        for role, names in (("in", "ABC"), ("inout", "XYZ"), ("temp", "UVW")):
            for name in names:
                rank = self.random.choice((0, 1, 1, 2, 2, 2, 3))
                dims = [
                    self.random.choice((*SIZES, *SIZES, STEPS, f"{STEPS} + 1", *NUMBERS)) for _ in range(rank)
                ]
                self.arrays[name], self.roles[name] = tuple(dims), role

    def read(self, name: str, axes: dict[str, str], number: str | None = None) -> str:
        """Return an element of an array by axes of its extents; `number` for dimensions of fixed length."""
        subscripts: list[str] = []
        for dim in self.arrays[name]:
            choices = [a for a, e in axes.items() if e == dim]
            if dim == f"{STEPS} + 1":
                choices = [s for a, e in axes.items() if e == STEPS for s in (a, f"{a} + 1")]
            if dim in NUMBERS and (number is not None or not choices):
                choices = [number if number is not None else str(self.random.randrange(int(dim)))]
            subscripts.append(self.random.choice(choices or ["0"]))
        return f"{name}[{', '.join(subscripts)}]" if subscripts else name

    def value(self, axes: dict[str, str], number: str | None, cast: str = "") -> str:
        terms = [
            self.random.choice(("1", "0", "2"))
            if self.random.random() < 0.1
            else f"{cast}({self.read(self.random.choice('AABBCXYZUVW'), axes, number)})"
            for _ in range(self.random.choice((1, 1, 2, 2, 3)))
        ]
        if not any(any(c.isalpha() for c in t) for t in terms):
            terms.append(f"{cast}({self.read('A', axes, number)})")
        return self.random.choice((" * ", " * ", " + ") if not self.wide else (" + ",)).join(terms)

    def statement(self, axes: dict[str, str], number: str | None = None) -> str:
        target = self.read(self.random.choice("XYZUUVVWW"), axes, number)
        op = self.random.choice(("=", "=", "=", "+=", "+=", "+=", "max="))
        subscripts = set(target.removesuffix("]").split("[")[-1].replace(" + 1", "").split(", "))
        if op == "=" and not set(axes) - {STEP} <= subscripts:
            op = self.random.choice(("+=", "max="))  # else iterations write one element
        cast = "f32" if self.wide and op != "=" and target[0] in "XYZ" else ""
        value = "0" if op == "=" and self.random.random() < 0.3 else self.value(axes, number, cast)
        guard = f" if {self.random.choice(list(axes))} < 2" if axes and self.random.random() < 0.05 else ""
        return f"{target} {op} {value}{guard};"

    def nest(self, axes: dict[str, str], depth: int = 0) -> str:
        """Return a loop over some axes with one or two statements, perhaps a loop inside."""
        free = [a for a in "ijk" if a not in axes]
        chosen = self.random.sample(free, min(len(free), self.random.choice((1, 1, 2, 2, 3))))
        inner = {**axes, **{a: a.upper() for a in chosen}}
        if self.random.random() < 0.2:
            inner["g"] = self.random.choice(NUMBERS)
            chosen.append("g") if "g" not in axes else None
        if not chosen:
            return self.statement(axes)
        body = [self.statement(inner) for _ in range(self.random.choice((1, 1, 1, 2)))]
        if depth == 0 and self.random.random() < 0.25:
            body.append(self.nest(inner, 1))
        loops = ", ".join(f"{a} in {inner[a]}" for a in chosen)
        return f"for {loops} {{ {' '.join(body)} }}"

    def instances(self, axes: dict[str, str]) -> str:
        """Return one or two statements written out for each number of some dimension, perhaps others in between."""
        count = int(self.random.choice(NUMBERS))
        inner = {**axes, "i": "I", **({"j": "J"} if self.random.random() < 0.7 else {})}
        loops = ", ".join(f"{a} in {e}" for a, e in inner.items() if a not in axes)
        states = [self.random.getrandbits(32) for _ in range(self.random.choice((1, 1, 2)))]
        found: list[str] = []
        for n in range(count):
            for state in states:
                other, self.random = self.random, Random(state)
                found.append(f"for {loops} {{ {self.statement(inner, str(n))} }}")
                self.random = other
            if self.random.random() < 0.3:
                found.append(f"for {loops} {{ {self.statement(inner)} }}")
        return " ".join(found)

    def summed(self, axes: dict[str, str]) -> str:
        """Return a temporary summed up from 0, then added to something."""
        temp, target = self.random.choice("UVW"), self.random.choice("XYZ")
        loops = {f"e{n}": dim for n, dim in enumerate(self.arrays[temp])}
        cell = f"{temp}[{', '.join(loops)}]" if loops else temp
        self.arrays[target] = tuple(self.random.sample(list(loops.values()), len(loops)))
        inner = {**axes, **loops, "i": "I"}
        order = sorted(loops, key=lambda a: (self.arrays[target].index(loops[a]), a))
        there = f"{target}[{', '.join(order)}]" if loops else target
        op, value = self.random.choice((("=", f"{cell} + {self.value(inner, None)}"), ("+=", cell)))
        header = ", ".join(f"{a} in {e}" for a, e in inner.items() if a not in axes)
        last = ", ".join(f"{a} in {e}" for a, e in loops.items())
        sums = f"for {header} {{ {cell} += {self.value(inner, None)}; }}"
        end = f"{there} {op} {value};"
        start = self.fill(temp, axes, "0")
        others = [self.nest(axes) if self.random.random() < 0.3 else "" for _ in range(2)]
        return " ".join((start, others[0], sums, others[1], f"for {last} {{ {end} }}" if last else end))

    def block(self, axes: dict[str, str]) -> str:
        chance = self.random.random()
        if self.wide:
            return self.instances(axes) if chance < 0.4 else self.nest(axes)
        if chance < 0.2:
            return self.instances(axes)
        if chance < 0.3:
            return self.summed(axes)
        if chance < 0.35 and "k" not in axes:
            return f"seq k in K {{ {self.nest({**axes, 'k': 'K'})} {self.nest({**axes, 'k': 'K'})} }}"
        if chance < 0.4 and STEP not in axes:
            return (
                f"for j in J {{ seq {STEP} in {STEPS} {{ {self.nest({**axes, 'j': 'J', STEP: STEPS})} }} }}"
            )
        return self.nest(axes)

    def fill(self, name: str, axes: dict[str, str], value: str | None = None) -> str:
        """Return a temporary given values everywhere."""
        loops: dict[str, str] = {}
        for n, dim in enumerate(self.arrays[name]):
            loops[f"e{n}"] = dim
        cell = f"{name}[{', '.join(loops)}]" if loops else name
        if value is None:
            value = self.random.choice(("0", "0", "1", self.read(self.random.choice("ABC"), axes)))
        header = ", ".join(f"{a} in {e}" for a, e in loops.items())
        return f"for {header} {{ {cell} = {value}; }}" if loops else f"{cell} = {value};"

    def text(self) -> str:
        self.declare()
        body: list[str] = []
        for _ in range(self.random.choice((1, 2, 2, 3))):
            if self.random.random() < 0.5:
                body.append(self.block({}))
                continue
            inside = [self.fill(n, {STEP: STEPS}) for n in "UVW" if self.random.random() < 0.4]
            inside += [self.block({STEP: STEPS}) for _ in range(self.random.choice((1, 2, 2, 3)))]
            body.append(f"seq {STEP} in {STEPS} {{ {' '.join(inside)} }}")
        text = " ".join(body)
        written = set(re.findall(r"(\w+)(?:\[[^\]]*\])? (?:\+|max)?=", text))
        there = [n for n in "UVW" if re.search(rf"\b{n}\b", text)]
        first = [self.fill(n, {}) for n in there if n not in written or self.random.random() < 0.7]
        used = set(re.findall(r"\b[A-Z]\b", " ".join((text, *first)))) & self.arrays.keys()
        lines = [self.declaration(n, n in written or n in "UVW") for n in sorted(used)]
        return f"kernel k({', '.join((*SIZES, STEPS))}) {{ {' '.join((*lines, *first, *body))} }}"

    def declaration(self, name: str, is_written: bool) -> str:
        role = self.roles[name] if is_written else "in"
        extents = f"[{', '.join(self.arrays[name])}]" if self.arrays[name] else ""
        if self.wide:
            return f"{role} {name}: bf16{extents}{' accumulate f32' if role == 'inout' else ''};"
        return f"{role} {name}: i32{extents};"


@dataclass(frozen=True)
class Program:
    """A kernel with values for its sizes and operands."""

    kernel: Kernel
    sizes: dict[str, int]
    arrays: dict[str, NDArray[Any]]


def random_program(random: Random, wide: bool = False) -> Program:
    """Return a kernel that the verifier accepts; with `wide`, of numbers whose sums bf16 has to round."""
    while True:
        try:
            kernel = parse_kernel(Source("k", Writer(random, wide).text()))
        except IsamapError:
            continue
        sizes = {name: random.randint(1, 3) for name in (*SIZES, STEPS)}
        return Program(kernel, sizes, arrays_for(kernel, sizes, random, 200 if wide else 3))


def arrays_for(
    kernel: Kernel, sizes: dict[str, int], random: Random, largest: int = 3
) -> dict[str, NDArray[Any]]:
    """Values for what a kernel reads before it writes."""
    rng = np.random.default_rng(random.getrandbits(32))
    return {
        o.name: rng.integers(-largest, largest + 1, [int(e.evaluate({})) for e in o.shape]).astype(
            o.dtype.numpy()
        )
        for o in bind(kernel, sizes).operands
        if o.role in ("in", "inout")
    }


def random_sum_of_products(random: Random) -> Program:
    """Return a sum of products of two to four factors over some axes, perhaps guarded, with fills and constants."""
    axes = {a: a.upper() for a in random.sample("ijkt", random.randint(2, 4))}
    lines: list[str] = []

    def element(name: str, role: str, used: list[str], outside: bool) -> str:
        lines.append(f"{role} {name}: i32{'[' + ', '.join(axes[a] for a in used) + ']' if used else ''};")
        if outside and used:
            moved = [f"{a} + {random.randint(0, 1)} - 1" for a in used]
            return f"({name}[{', '.join(moved)}] else {random.choice((0, 1))})"
        return f"{name}[{', '.join(used)}]" if used else name

    factors = [
        element(n, "in", random.sample(list(axes), random.randint(0, len(axes))), random.random() < 0.3)
        for n in "ABCD"[: random.choice((2, 3, 3, 3, 4))]
    ]
    if random.random() < 0.3:
        factors.insert(random.randrange(len(factors)), random.choice(("2", "3")))
    target = element("Y", "inout", random.sample(list(axes), random.randint(0, len(axes) - 1)), False)
    guards = [
        f"{' + '.join(random.sample(list(axes), random.randint(1, 2)))} < 3"
        for _ in range(random.choice((0, 0, 1, 2)))
    ]
    op, times = random.choice(
        (("+=", " * "), ("+=", " * "), ("+=", " * "), ("|=", " & "), ("&=", " | "), ("^=", " & "))
    )
    guard = f" if {' & '.join(guards)}" if guards else ""
    loops = ", ".join(f"{a} in {e}" for a, e in axes.items())
    body = f"for {loops} {{ {target} {op} {times.join(factors)}{guard}; }}"
    kernel = parse_kernel(
        Source("k", f"kernel k({', '.join((*SIZES, STEPS))}) {{ {' '.join((*lines, body))} }}")
    )
    sizes = {name: random.randint(1, 3) for name in (*SIZES, STEPS)}
    return Program(kernel, sizes, arrays_for(kernel, sizes, random))
