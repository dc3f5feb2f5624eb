"""Strategies for an instruction and a kernel, both of one small statement, that often belong together.

    instruction: for i in 2, j in 3 { c[i] += f32(a[i + j]) * f32(b[j]); }
    kernel:      for m in 3, n in 2, k in 4 { Y[n, m] += f32(B[k]) * f32(A[m + k, 2*n]); }

Each kernel axis is given a home, an axis of the instruction or the loops around it, and then indexes what
that home indexes: mostly, for what there is to get wrong lies in the exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from hypothesis import strategies as st

MOST_ITERATIONS = 64
MOST_LANES = 24


@dataclass(frozen=True)
class Pair:
    """Texts of an instruction and of a kernel; the kernel once more with its sizes left open, and these."""

    instruction: str
    kernel: str
    generic: str
    sizes: dict[str, int]

    def __repr__(self) -> str:
        return f"\n{self.instruction}\n{self.kernel}\n"


@dataclass(frozen=True)
class Form:
    """A statement's shape: its value over operands 0, 1, … by type and place, and what may reduce it."""

    value: str
    types: tuple[str, ...]
    ops: tuple[str, ...] = ("+=",)
    result: str = "f32"

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
)
"""Forms of an instruction and of a kernel that it may perform, as positions in `FORMS`."""


@dataclass(frozen=True)
class Subscript:
    """`2*i + j + 1`; steps back count from the end of the axis, and `ending` is `/ 2`, `% 2` or nothing."""

    steps: tuple[tuple[str, int], ...]
    constant: int = 0
    ending: str = ""

    def text(self, extents: Mapping[str, str]) -> str:
        parts = [
            f"{step}*{axis}" if step > 0 else f"{-step}*({extents[axis]} - 1 - {axis})"
            for axis, step in self.steps
        ]
        total = " + ".join([*parts, str(self.constant)])
        return f"({total}) {self.ending}" if self.ending else total

    def extent(self, extents: Mapping[str, str]) -> str:
        """One more than the largest value before the ending."""
        return " + ".join([f"{abs(s)}*({extents[a]} - 1)" for a, s in self.steps] + [str(self.constant + 1)])


Shape = tuple[Subscript, ...]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """An instruction, and a kernel that mostly does what several of its issues do."""
    mine, theirs = (FORMS[n] for n in draw(st.sampled_from(RELATED)))
    if draw(st.integers(0, 11)) == 0:
        theirs = draw(st.sampled_from(FORMS))
    op = draw(st.sampled_from([o for o in mine.ops if o in theirs.ops] or mine.ops))
    lengths = draw(_lengths())
    inside = _subsets(draw, list(lengths), len(mine.types))
    output = list(lengths) if op == "=" else _subset(draw, list(lengths))
    shapes = [_forward(draw(_subscripts(axes, fancy=3))) for axes in inside]
    target = _forward(draw(_subscripts(output, fancy=0 if op == "=" else 6)))
    extents = {j: name for j, (name, _) in lengths.items()}
    params = [declared for _, declared in lengths.values() if declared]
    where = draw(_demands(params))
    memories = [draw(st.sampled_from(("reg", "reg", "reg", "reg", "mem"))) for _ in shapes]
    instruction = _instruction(mine, op, extents, params, where, memories, shapes, target)
    kernel, generic, sizes = draw(_kernels(mine, theirs, op, inside, output, shapes, list(lengths)))
    return Pair(instruction, kernel, generic, {a.upper(): int(n) for a, n in sizes.items()})


@st.composite
def _lengths(draw: st.DrawFn) -> dict[str, tuple[str, str]]:
    """Axes of an instruction: what each extent is called, and the declaration of the parameter that it is."""
    found: dict[str, tuple[str, str]] = {}
    lanes = 1
    is_open = False
    for axis in "ijkl"[: draw(st.sampled_from((1, 1, 2, 2, 3, 3, 4)))]:
        length = min(draw(st.sampled_from((1, 2, 2, 2, 3, 3, 4))), MOST_LANES // lanes)
        lanes *= length
        kind = draw(st.sampled_from(("", "", "", "", "", "choose", "scalar", "open")))
        name = axis.upper()
        if not kind:
            found[axis] = (str(length), "")
        elif kind == "open" and not is_open:
            found[axis] = (name, f"choose {name}")
            is_open = True
        else:
            found[axis] = (name, f"{kind.replace('open', 'choose')} {name}: 1..{length}")
    return found


@st.composite
def _demands(draw: st.DrawFn, params: Sequence[str]) -> str:
    """What is demanded of parameters that have a range, if anything; perhaps more than can be met."""
    bounded = [p.split()[1].removesuffix(":") for p in params if ".." in p]
    if not bounded or draw(st.integers(0, 5)):
        return ""
    name = draw(st.sampled_from(bounded))
    return f" where {name} {draw(st.sampled_from(('<= 2', '< 2', '>= 2', '== 3', '% 2 == 0', '!= 2')))}"


def _subset(draw: st.DrawFn, axes: list[str]) -> list[str]:
    return [a for a in axes if draw(st.integers(0, 4)) < 3]


def _subsets(draw: st.DrawFn, axes: list[str], count: int) -> list[list[str]]:
    found = [_subset(draw, axes) for _ in range(count)]
    for axis in axes:
        if not any(axis in f for f in found):
            found[draw(st.integers(0, count - 1))].append(axis)
    return found


@st.composite
def _subscripts(draw: st.DrawFn, axes: Sequence[str], fancy: int) -> Shape:
    """Axes in some order, most in a dimension of their own; one in `fancy` dimensions is something else."""
    left = draw(st.permutations(list(axes)))
    found: list[Subscript] = []
    while left:
        plain = not fancy or draw(st.integers(0, fancy)) > 0
        count = 1 if plain else draw(st.integers(1, min(2, len(left))))
        own, left = left[:count], left[count:]
        if plain:
            found.append(Subscript(((own[0], 1),)))
            continue
        steps = tuple((a, draw(st.sampled_from((1, 1, 2, 3, -1, -2)))) for a in own)
        ending = draw(st.sampled_from((*[""] * 20, "/ 2", "% 2")))
        found.append(Subscript(steps, draw(st.sampled_from((0, 0, 1, 2))), ending))
    return tuple(found)


def _forward(shape: Shape) -> Shape:
    """A quotient of an axis that runs backwards depends on its length, which may be open."""
    return tuple(
        replace(s, steps=tuple((a, abs(step)) for a, step in s.steps)) if s.ending else s for s in shape
    )


def _declaration(role: str, name: str, dtype: str, shape: Shape, extents: Mapping[str, str], end: str) -> str:
    sizes = ", ".join(s.extent(extents) for s in shape)
    return f"{role} {name}: {dtype}[{sizes}]{end};" if shape else f"{role} {name}: {dtype}{end};"


def _access(name: str, shape: Shape, extents: Mapping[str, str]) -> str:
    return f"{name}[{', '.join(s.text(extents) for s in shape)}]" if shape else name


def _scalars(form: Form) -> list[str]:
    found = {"alpha": "scalar alpha: f32", "beta": "scalar beta: i64"}
    return [declared for name, declared in found.items() if name in form.value]


def _loops(extents: Mapping[str, str], statement: str) -> str:
    loops = ", ".join(f"{a} in {n}" for a, n in extents.items())
    return f"for {loops} {{ {statement} }}"


def _instruction(
    form: Form,
    op: str,
    extents: Mapping[str, str],
    params: list[str],
    where: str,
    memories: list[str],
    shapes: list[Shape],
    target: Shape,
) -> str:
    used = list(zip("abd", form.types, shapes, strict=False))
    declared = [
        _declaration("in", n, t, s, extents, f" @ {m}") for (n, t, s), m in zip(used, memories, strict=True)
    ]
    declared.append(_declaration("inout", "c", form.result, target, extents, " @ reg"))
    params = [*params, *_scalars(form)]
    value = form.text([_access(n, s, extents) for n, _, s in used])
    body = _loops(extents, f"{_access('c', target, extents)} {op} {value};")
    return f"instruction perform({', '.join(params)}){where} {{ {' '.join(declared)} {body} }}"


@st.composite
def _kernels(
    draw: st.DrawFn,
    mine: Form,
    theirs: Form,
    op: str,
    inside: list[list[str]],
    output: list[str],
    shapes: list[Shape],
    homes: list[str],
) -> tuple[str, str, dict[str, str]]:
    """A kernel whose axes index what their homes do, with exceptions, with extents and with open sizes."""
    extents, home = _kernel_axes(draw, homes)
    order = (
        draw(st.permutations(range(len(theirs.types)))) if draw(st.booleans()) else range(len(theirs.types))
    )
    inputs: list[Input] = []
    for name, dtype, source in zip("ABD", theirs.types, order, strict=False):
        like = inside[source] if source < len(inside) else draw(st.sampled_from(inside))
        axes = [a for a in extents if _indexes(draw, home[a], like)]
        shape = None
        if source < len(shapes) and draw(st.integers(0, 2)) > 0:
            shape = _imitation(draw, shapes[source], {h: a for a, h in home.items() if a in axes}, axes)
        shape = shape or draw(_subscripts(axes, fancy=4))
        inputs.append(Input(name, dtype, shape, bool(shape) and draw(st.integers(0, 9)) == 0))
    if op == "=":
        target = tuple(Subscript(((a, 1),)) for a in draw(st.permutations(list(extents))))
    else:
        target = draw(_subscripts([a for a in extents if _indexes(draw, home[a], output)], fancy=8))
    guard = " if i < 1" if draw(st.integers(0, 29)) == 0 else ""
    ordered = 1 if draw(st.integers(0, 9)) == 0 else 0
    written = _Written(theirs, op, tuple(inputs), target, guard, ordered)
    return written.text(extents), written.text({a: a.upper() for a in extents}), extents


@dataclass(frozen=True)
class Input:
    """An operand that a kernel reads; one element lower, and 0 outside, when it fills."""

    name: str
    dtype: str
    shape: Shape
    fills: bool

    def access(self, extents: Mapping[str, str]) -> str:
        if not self.fills:
            return _access(self.name, self.shape, extents)
        first, *others = self.shape
        lower = Subscript(first.steps, first.constant - 1, first.ending)
        return f"({_access(self.name, (lower, *others), extents)} else 0)"


@dataclass(frozen=True)
class _Written:
    """A kernel but for its extents: numbers, or the names of sizes. The first `ordered` axes are in order."""

    form: Form
    op: str
    inputs: tuple[Input, ...]
    target: Shape
    guard: str
    ordered: int

    def text(self, extents: Mapping[str, str]) -> str:
        declared = [_declaration("in", i.name, i.dtype, i.shape, extents, "") for i in self.inputs]
        declared.append(_declaration("inout", "Y", self.form.result, self.target, extents, ""))
        value = self.form.text([i.access(extents) for i in self.inputs])
        body = f"{_access('Y', self.target, extents)} {self.op} {value}{self.guard};"
        axes = list(extents)
        if free := axes[self.ordered :]:
            body = _loops({a: extents[a] for a in free}, body)
        for a in axes[: self.ordered]:
            body = f"seq {a} in {extents[a]} {{ {body} }}"
        sizes = [n for n in extents.values() if not n.isdigit()]
        params = ", ".join([*sizes, *_scalars(self.form)])
        return f"kernel k({params}) {{ {' '.join(declared)} {body} }}"


def _kernel_axes(draw: st.DrawFn, homes: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Axes with their extents, and the instruction's axis that each is meant for, '' for a loop."""
    count = draw(st.sampled_from((1, 2, 2, 3, 3, 3, 4, 4, 5)))
    extents: dict[str, str] = {}
    for axis in "ikmnp"[:count]:
        room = MOST_ITERATIONS // prod(map(int, extents.values()))
        extents[axis] = str(min(room, draw(st.sampled_from((1, 2, 2, 3, 3, 4)))))
    left = list(draw(st.permutations(homes)))
    home = {
        a: left.pop() if left and draw(st.integers(0, 5)) else draw(st.sampled_from(["", *homes]))
        for a in extents
    }
    return extents, home


def _indexes(draw: st.DrawFn, home: str, axes: Sequence[str]) -> bool:
    """Whether a kernel axis indexes what its home indexes, mostly; a loop may index anything."""
    if not home:
        return draw(st.booleans())
    return (home in axes) != (draw(st.integers(0, 19)) == 0)


def _imitation(
    draw: st.DrawFn, shape: Shape, axis_at: Mapping[str, str], axes: Sequence[str]
) -> Shape | None:
    """The instruction's own subscripts over kernel axes, steps scaled; axes left over get dimensions."""
    if not all(a in axis_at for s in shape for a, _ in s.steps):
        return None
    scale = draw(st.sampled_from((1, 1, 1, 2)))
    found = [
        Subscript(tuple((axis_at[a], scale * step) for a, step in s.steps), s.constant, s.ending)
        for s in shape
    ]
    used = {a for s in found for a, _ in s.steps}
    return (*found, *(Subscript(((a, 1),)) for a in axes if a not in used))
