"""Work dealt to trips of a loop: what may be parted into shares that go on where the one before ended."""

from __future__ import annotations

from isamap.ir import Index
from isamap.ir.dtypes import DTYPES
from isamap.ir.index import ZERO
from isamap.lower.deal import DividedWork, continue_slices
from isamap.lower.program import Begin, Declare, Fill, For, Issue, MemoryRef, Names, Node, RegisterRef, Value

VALUE = Value("v", "reg", DTYPES["f32"], ())
MOVE: tuple[Node, ...] = (
    Declare((VALUE,)),
    Issue("load_f32", (("a", MemoryRef("A", ZERO, ())), ("z", RegisterRef("v")))),
    Issue("store_f32", (("a", RegisterRef("v")), ("z", MemoryRef("B", ZERO, ())))),
)


def dealt(*nodes: Node) -> tuple[DividedWork, tuple[Node, ...]]:
    """Return the nodes, dealt to eight trips of one loop."""
    return continue_slices(DividedWork("a copy", ((0, Index.of(8)),), lambda: nodes), Names(set()))


def test_loops_and_fills_are_parts_of_their_own() -> None:
    work, (begin,) = dealt(Fill("B", ZERO, Index.of(4)), For("i", Index.of(16), MOVE))
    assert work.work
    assert isinstance(begin, Begin)
    assert begin.parts == 2


def test_values_in_registers_are_not_parted_from_what_they_are_for() -> None:
    work, before = dealt(*MOVE)
    assert not work.work
    assert before == ()
