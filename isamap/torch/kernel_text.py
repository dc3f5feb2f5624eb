"""Write a group as the text of a kernel, with the tensors that it reads and writes.

mul(add(x, b), 2)  ->  kernel add_mul() {
                         in a0: f32[16, 32];
                         in a1: f32[32];
                         out y0: f32[16, 32];
                         for d0 in 16, d1 in 32 { y0[d0, d1] = (a0[d0, d1] + a1[d1]) * f32(2); }
                       }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isamap.graph.patterns import Sizes, Strides, broadcast, merged, reshaped
from isamap.graph.terms import NotTaken, Term, cast, number
from isamap.ir import print_routine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.torch.anchors import ANCHORS, SEVERAL
from isamap.torch.fx_groups import Group, is_used_outside
from isamap.torch.fx_nodes import base_of, is_result, lying, name_of, promoted
from isamap.torch.kernel_statements import own_axes, wide_of
from isamap.torch.pointwise import terms_of, value_of
from isamap.transform.inlining import inlined


@dataclass(frozen=True, slots=True)
class Passed:
    """A tensor as a kernel takes it: by what name, of what node, how it is walked. Units: elements."""

    name: str
    node: Any
    sizes: Sizes
    strides: Strides


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a kernel, what it reads, and what it writes."""

    name: str
    text: str
    reads: tuple[Passed, ...]
    writes: tuple[Passed, ...]


def kernel_text(group: Group) -> Text:
    """Return the kernel of a group. Raises: NotTaken, IsamapError."""
    made = _Made(group)
    if group.anchor is not None:
        made.put_anchor(group.anchor)
    for node in group.members:
        if is_result(node):
            made.put_result(node)
        elif node is not group.anchor:
            made.put(node)
    name = "_".join(name_of(m).partition(".")[0].strip("_") for m in group.members if not is_result(m))
    name = f"aten_{name[:60]}"
    text = f"kernel {name}() {{\n" + "\n".join((*made.operands, *made.statements)) + "\n}\n"
    routine = inlined(parse_kernel(Source(name, text))).kernel
    return Text(name, print_routine(routine), tuple(made.reads.values()), tuple(made.writes))


class _Made:
    """A kernel text under construction: its operands, its statements, and the names of the group's nodes."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.operands: list[str] = []
        self.statements: list[str] = []
        self.reads: dict[tuple[Any, Sizes, Strides], Passed] = {}
        self.writes: list[Passed] = []
        self.sizes = group.sizes if group.anchor is not None else self._merged()
        self.at = [f"d{n}" if size != 1 else "0" for n, size in enumerate(self.sizes)]
        self._values: dict[Any, Term] = {}
        self._further: dict[int, str] = {}
        self._temporaries = 0

    # --- what anchors write to (writing.Writer) ---

    def read(self, node: Any, index: Sequence[str], *, padded: str = "") -> str:
        """Return an element of a tensor, in the type in which the anchor is computed."""
        found = lying(node)
        element = self._element(node, found.dtype, found.sizes, found.strides, index, whole=bool(padded))
        dtype = wide_of(self.group.anchor)
        if not padded:
            return cast(Term(element, found.dtype), dtype).text
        inside = f"{element} else {padded}"
        return f"({inside})" if found.dtype == dtype else f"{dtype}({inside})"

    def temporary(self, dtype: str, sizes: Sequence[int]) -> str:
        """Return the name of a new buffer."""
        name = f"t{self._temporaries}"
        self._temporaries += 1
        self.operands.append(f"temp {name}: {dtype}{_extents(sizes)};")
        return name

    def array(self, node: Any, axis: int, parts: int) -> str:
        """Return the name of an array of a tensor's elements, one of its axes cut: its own, or that of a copy."""
        found, dtype = lying(node), wide_of(self.group.anchor)
        sizes, strides = found.sizes, found.strides
        if parts != 1:
            each = sizes[axis] // parts
            strides = (*strides[:axis], strides[axis] * each, *strides[axis:])
            sizes = (*sizes[:axis], parts, each, *sizes[axis + 1 :])
        axes = {f"d{n}": size for n, size in enumerate(sizes)}
        in_order = _walk(sizes, strides, whole=True) == list(range(len(sizes))) and strides[-1] == 1
        if found.dtype == dtype and in_order and all(strides):
            return self._element(node, dtype, sizes, strides, list(axes), whole=True).partition("[")[0]
        name = self.temporary(dtype, sizes)
        element = Term(self._element(node, found.dtype, sizes, strides, list(axes)), found.dtype)
        self.loop(axes, f"{name}[{', '.join(axes)}] = {cast(element, dtype).text};")
        return name

    def further(self, result: int, element: str) -> None:
        """Says where a result of several of the anchor is."""
        self._further[result] = element

    def loop(self, axes: Mapping[str, int], *statements: str) -> None:
        """Append a loop nest with its statements."""
        head = ", ".join(f"{name} in {size}" for name, size in axes.items())
        body = " ".join(statements)
        self.statements.append(f"for {head} {{ {body} }}" if axes else body)

    # --- nodes ---

    def put_anchor(self, node: Any) -> None:
        """Write the statements of an anchor; its value is rounded where another node reads it."""
        if name_of(node) in SEVERAL:
            SEVERAL[name_of(node)](node, self)
            return
        dtype, is_single = wide_of(node), not isinstance(node.meta["val"], tuple | list)
        if is_single and is_used_outside(node, self.group) and lying(node).dtype == dtype:
            element = self._output(node)
        else:
            buffer = self.temporary(dtype, [size for size in self.sizes if size != 1])
            element = buffer + _index([axis for axis in self.at if axis != "0"])
        ANCHORS[name_of(node)](node, self, self.at, element)
        self._further[0] = element
        if is_single:
            self._keep(node, Term(element, dtype))

    def put_result(self, node: Any) -> None:
        """One of several results of the anchor."""
        found = Term(self._further[node.args[1]], wide_of(node.args[0]))
        if node.args[1] == 0:
            self._keep(node, found)
        elif is_used_outside(node, self.group):
            sizes, strides = lying(node).sizes, lying(node).strides
            index = [f"d{n}" if size != 1 else "0" for n, size in enumerate(sizes)]
            target = self._written(node, sizes, strides, index)
            self.loop(own_axes(node), f"{target} = {cast(found, lying(node).dtype).text};")

    def put(self, node: Any) -> None:
        """Write the statement of an elementwise operation."""
        name, result = name_of(node), lying(node).dtype
        terms = terms_of(node, name)
        given = [self._term(term, tuple(node.meta["val"].shape)) for term in terms]
        value = value_of(node, name, given, promoted(terms), result)
        if is_used_outside(node, self.group):
            target = self._output(node)
        else:
            buffer = self.temporary(result, [size for size in self.sizes if size != 1])
            target = buffer + _index([axis for axis in self.at if axis != "0"])
        self.loop(self._axes(), f"{target} = {value.text};")
        self._values[node] = Term(target, result)

    def _keep(self, node: Any, found: Term) -> None:
        """Keep the value of an anchor, rounded to its type; write it out where another kernel needs it."""
        rounded = cast(found, lying(node).dtype)
        self._values[node] = rounded
        if is_used_outside(node, self.group) and rounded != found:
            self.loop(self._axes(), f"{self._output(node)} = {rounded.text};")
        elif is_used_outside(node, self.group) and not any(w.node is node for w in self.writes):
            self.loop(self._axes(), f"{self._output(node)} = {found.text};")

    def _axes(self) -> dict[str, int]:
        return {f"d{n}": size for n, size in enumerate(self.sizes) if size != 1}

    def _term(self, term: Any, sizes: Sizes) -> Term:
        """Return an argument of a node of that shape."""
        if not hasattr(term, "meta"):
            return number(term)
        known = self._values.get(base_of(term))
        if known is not None:
            return known
        found = lying(term)
        strides = reshaped(sizes, broadcast(found.sizes, found.strides, sizes), self.sizes)
        assert strides is not None, "the group has this shape"
        return Term(self._element(term, found.dtype, self.sizes, strides, self.at), found.dtype)

    # --- operands ---

    def _merged(self) -> Sizes:
        """Return the fewest axes over which all tensors of a group without an anchor can be walked."""
        inside, walks = set(self.group.members), list[Strides]()
        for node in self.group.members:
            sizes = tuple(node.meta["val"].shape)
            terms = [t for t in terms_of(node, name_of(node)) if hasattr(t, "meta")]
            for term in (node, *(t for t in terms if base_of(t) not in inside)):
                found = lying(term)
                strides = reshaped(sizes, broadcast(found.sizes, found.strides, sizes), self.group.sizes)
                assert strides is not None, "the group has this shape"
                walks.append(strides)
        return merged(self.group.sizes, walks)

    def _element(
        self,
        node: Any,
        dtype: str,
        sizes: Sizes,
        strides: Strides,
        index: Sequence[str],
        *,
        whole: bool = False,
    ) -> str:
        """Return an element that is read; `whole` keeps axes of one element, where a read may go past the element."""
        if whole and any(size > 1 and stride == 0 for size, stride in zip(sizes, strides, strict=True)):
            raise NotTaken("a padded tensor that is repeated")
        walk = _walk(sizes, strides, whole)
        key = (node, tuple(sizes[d] for d in walk), tuple(strides[d] for d in walk))
        if key not in self.reads:
            name = f"a{len(self.reads)}"
            self.reads[key] = Passed(name, *_laid(*key))
            self.operands.append(f"in {name}: {dtype}{_extents(self.reads[key].sizes)};")
        passed = self.reads[key]
        return passed.name + _index([index[d] for d in walk], len(passed.sizes))

    def _output(self, node: Any) -> str:
        found = lying(node)
        strides = reshaped(found.sizes, found.strides, self.sizes)
        assert strides is not None, "the group has this shape"
        return self._written(node, self.sizes, strides, self.at)

    def _written(self, node: Any, sizes: Sizes, strides: Strides, index: Sequence[str]) -> str:
        walk = _walk(sizes, strides, whole=False)
        name = f"y{len(self.writes)}"
        passed = Passed(name, *_laid(node, tuple(sizes[d] for d in walk), tuple(strides[d] for d in walk)))
        self.writes.append(passed)
        self.operands.append(f"out {name}: {lying(node).dtype}{_extents(passed.sizes)};")
        return name + _index([index[d] for d in walk], len(passed.sizes))


def _walk(sizes: Sizes, strides: Strides, whole: bool) -> list[int]:
    """Return the axes of a tensor in the order in which they lie in memory, without those that lead nowhere."""
    kept = [d for d, size in enumerate(sizes) if whole or (size != 1 and strides[d] != 0)]
    return sorted(kept, key=lambda d: -strides[d])


def _laid(node: Any, sizes: Sizes, strides: Strides) -> tuple[Any, Sizes, Strides]:
    """With an axis of one element where neighbours lie apart: those of an operand's last axis do not."""
    if strides and strides[-1] != 1:
        return node, (*sizes, 1), (*strides, 1)
    return node, sizes, strides


def _extents(sizes: Sequence[int]) -> str:
    return f"[{', '.join(map(str, sizes))}]" if sizes else ""


def _index(index: Sequence[str], rank: int | None = None) -> str:
    filled = [*index, *["0"] * ((len(index) if rank is None else rank) - len(index))]
    return f"[{', '.join(filled)}]" if filled else ""
