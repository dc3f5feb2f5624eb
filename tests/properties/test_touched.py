"""What chains of moves touch: only what is wanted, whatever becomes of it, whichever chain is the cheapest.

For each want, each instruction that reads or writes memory is once made the cheapest of all, so that every
chain that some calibration would choose is looked at: the instruction's meaning, performed over addresses.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pytest
from properties.touching import STRIDES, elements, touched

from isamap.ir import Cast, DType, Expr, Index, Read, converts_exactly
from isamap.machine import Machine, load_machine
from isamap.match import LoadRequest, MoveSearch, OperandMove, find_operand_load, find_operand_store
from isamap.match.moves.chains import steps_of
from isamap.match.tiles.operand_tiles import zero_of

MACHINES = ("generic-c", "x86-avx2", "x86-avx512-bf16", "x86-amx")
LANE, ROW = Index.of("%0"), Index.of("%1")
M, K = Index.of("@m"), Index.of("@k")
ENV = {"@m": 3, "@k": 5, "A.s0": 1009}
LOOKED_AT = 150  # requests for each machine


@dataclass(frozen=True)
class Favouring(MoveSearch):
    """MoveSearch for which one instruction costs next to nothing."""

    favoured: str = ""

    def interval_ns(self, name: str, params: dict[str, int]) -> float:
        return 1e-6 if name == self.favoured else 1.0 + super().interval_ns(name, params)


def forms(rank: int) -> tuple[tuple[Index, Index], ...]:
    """Subscripts of A by which a register may be filled: rows, one for all, groups, columns, interleaves."""
    if rank == 0:
        return ((M, K),)
    if rank == 2:
        return ((M + LANE, K + ROW), (M + ROW, K + LANE), (M, K + ROW), (M + 2 * LANE, K + ROW), (M, K))
    groups = [(M, K + LANE.mod(g)) for g in (2, 4, 8)]
    interleaved = [(M + LANE.mod(g), K + LANE.floordiv(g)) for g in (2, 4)]
    return ((M, K), (M, K + LANE), (M + LANE, K), (M, K + LANE.floordiv(2)), *groups, *interleaved)


def requests(machine: Machine, search: MoveSearch) -> Iterator[tuple[LoadRequest, Read]]:
    """Registers that instructions write, as parts of them may be wanted, and what they hold of A."""
    known = search.known
    registers = {
        (p.output.memory or "", p.output.dtype, tuple(s.value for s in p.output.shape))
        for key in known.outputs
        for ps in (known.producers(*key), *known.in_pieces(*key))
        for p in ps
    }
    for memory, dtype, shape in sorted(registers, key=str):
        if search.is_addressable(memory) or None in shape or len(shape) > 2:
            continue
        sizes = tuple(s for s in shape if s)
        for source, index, part in product(sources(dtype, search), forms(len(sizes)), parts(sizes)):
            element = Read("A", index, source)
            expr: Expr = element if source == dtype else Cast(element, dtype)
            for fill in (None, zero_of(dtype)):
                yield LoadRequest(expr, memory, dtype, sizes, part, fill), element


def sources(dtype: DType, search: MoveSearch) -> list[DType]:
    """Return the type itself, and types that an instruction makes it of by widening."""
    known = search.known
    made = [p.value for key in known.outputs if key[1] == dtype.name for p in known.producers(*key)]
    widened = {v.value.dtype for v in made if isinstance(v, Cast) and converts_exactly(v.value.dtype, dtype)}
    return sorted({dtype, *widened}, key=lambda d: d.name)


def parts(sizes: tuple[int, ...]) -> Iterator[tuple[Index | None, ...]]:
    """Yield how much of a register matters."""
    yield tuple(None for _ in sizes)
    for axis, size in enumerate(sizes):
        for part in {1, 3, size // 2, size - 1} & set(range(1, size)):
            yield tuple(Index.of(part) if n == axis else None for n in range(len(sizes)))
        yield tuple(Index.of("#n") if n == axis else None for n in range(len(sizes)))


def moving(machine: Machine, search: MoveSearch, role: str, dtype: DType) -> list[str]:
    """Instructions that read (or write) elements of a type in memory."""
    return [
        name
        for name, item in machine.instructions.items()
        if any(
            o.role == role and o.dtype == dtype and search.is_addressable(o.memory)
            for o in item.instruction.operands
        )
    ]


def favouring(machine: Machine, element: Read, role: str) -> list[MoveSearch]:
    """MoveSearch, each with another instruction that moves such elements as the cheapest."""
    plain = MoveSearch(machine, {"A": STRIDES})
    named = moving(machine, plain, role, element.dtype)
    return [Favouring(machine, {"A": STRIDES}, favoured=name) for name in named]


def asked(machine: Machine, role: str, count: int) -> Iterator[tuple[MoveSearch, LoadRequest, Read]]:
    """So many requests, each with an instruction that moves elements of its type the cheapest."""
    chosen, everything = random.Random(7), [*requests(machine, MoveSearch(machine, {"A": STRIDES}))]
    for request, element in chosen.choices(everything, k=count):
        if known := favouring(machine, element, role):
            yield chosen.choice(known), request, element


def assert_inside(found: OperandMove, request: LoadRequest, element: Read, machine: Machine) -> None:
    for env in counts(request):
        outside = touched(found, machine, env) - elements(element, request.shape, request.valid, env)
        assert not outside, f"{found} reads {outside} for {request}"


def counts(request: LoadRequest) -> tuple[dict[str, int], ...]:
    """Numbers for all symbols, with what only the run knows at its ends."""
    last = max(1, request.shape[0] - 1) if request.shape else 1
    return tuple(ENV | {"#n": n} for n in (1, last))


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("name", MACHINES)
def test_chains_read_only_what_is_requested_whichever_is_the_cheapest(name: str) -> None:
    machine, chains = load_machine(name), 0
    for search, request, element in asked(machine, "in", LOOKED_AT):
        found = find_operand_load(search, request)
        if isinstance(found, OperandMove):
            chains += 1
            assert_inside(found, request, element, machine)
    assert chains > LOOKED_AT // 40


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["x86-avx2", "x86-avx512-bf16"])
def test_every_chain_that_is_the_cheapest_for_some_times_reads_only_what_is_requested(name: str) -> None:
    machine, chosen, chains = load_machine(name), random.Random(7), set[tuple[str, ...]]()
    plain = MoveSearch(machine, {"A": STRIDES})
    for request, element in requests(machine, plain):
        whole = replace(request, valid=tuple(None for _ in request.shape), fill=None)
        if request != whole or not isinstance(find_operand_load(plain, whole), OperandMove):
            continue
        for search in favouring(machine, element, "in"):
            fill = zero_of(request.dtype) if chosen.random() < 0.2 else None
            part = replace(whole, valid=chosen.choice([*parts(request.shape)]), fill=fill)
            for each in (whole, part):
                if isinstance(found := find_operand_load(search, each), OperandMove):
                    chains.add(tuple(step.instruction for step in steps_of(found)))
                    assert_inside(found, each, element, machine)
    assert len(chains) > 100


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("name", MACHINES)
def test_stores_write_exactly_what_is_requested_whichever_is_the_cheapest(name: str) -> None:
    machine, chains = load_machine(name), 0
    for search, request, element in asked(machine, "out", LOOKED_AT):
        here = tuple(Index.of(f"%{n}") for n in range(len(request.shape)))
        held = Read(f"$value:{request.memory}", here, request.dtype)
        value = held if element.dtype == request.dtype else Cast(held, element.dtype)
        found = find_operand_store(search, element, value, "", None, request)
        if found is not None:
            chains += 1
            for env in counts(request):
                written = touched(found, machine, env)
                assert written == elements(element, request.shape, request.valid, env), (
                    f"{found} for {request}"
                )
    assert chains
