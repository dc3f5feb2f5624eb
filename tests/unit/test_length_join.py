"""Programs for several lengths of vectors as one: what is alike once, the rest under conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from isamap.driver.dispatching import compile_dispatch
from isamap.driver.length_versions import compile_request
from isamap.driver.pipeline import Compilation
from isamap.driver.request import Request, Size
from isamap.ir import Index
from isamap.kernels import kernel_path
from isamap.lower.length_check import check_join
from isamap.lower.length_join import Numbers, join_lengths
from isamap.lower.program import Block, For, If, LoweredProgram, Node, Parallel, WorkSlice
from isamap.machine import load_machine, machine_digest, split_word
from isamap.source import Source, UsageProblem

RVV = str(Path(__file__).parent.parent / "data" / "machines" / "rvv.yaml")
OPEN: dict[str, Size] = {"M": 4, "N": "1..99@40", "K": 8}
LENGTHS = (2, 4, 8)
N, Q = Index.of("N"), Index.of("Q")


def asked(machine: str, sizes: dict[str, Size]) -> Request:
    source = Source("gemm_f32.ir", kernel_path("gemm_f32").read_text())
    return Request(source, machine, sizes, heuristic="greedy", cache=False)


def compiled(machine: str, sizes: dict[str, Size]) -> Compilation:
    return compile_request(asked(machine, sizes), "lower")


def nodes_of(body: Sequence[Node]) -> list[Node]:
    around = [node for node in body if isinstance(node, For | If | Block | Parallel | WorkSlice)]
    return [*body, *(child for node in around for child in nodes_of(node.body))]


def joined(*indices: Index, values: tuple[int, ...] = LENGTHS) -> tuple[Index | None, Numbers]:
    numbers = Numbers("Q", "Q", values, lambda stem: f"{stem}0", [])
    return numbers.joined(indices, range(len(indices))), numbers


@pytest.fixture(scope="module")
def one() -> LoweredProgram:
    program = compiled(f"{RVV}@Q=2,4,8", OPEN).program
    assert program
    return program


def test_numbers_become_multiples_of_the_length() -> None:
    assert joined(*(N.floordiv(4 * v) * 4 * v + 2 * v + 1 for v in LENGTHS))[0] == (
        4 * Q * N.floordiv(4 * Q) + 2 * Q + 1
    )
    assert joined(*(N.floordiv(8 * v) - 2 * N.floordiv(4 * v) for v in LENGTHS))[0] == (
        N.floordiv(8 * Q) - 2 * N.floordiv(4 * Q)
    )
    assert joined(*(Index.of(3 * v * v) for v in LENGTHS))[0] == 3 * Q * Q


def test_other_numbers_stand_in_a_table() -> None:
    found, numbers = joined(Index.of(11), Index.of(6), Index.of(3))
    assert found == Index.of("q0")
    assert numbers.lengths.at(1) == {"Q": 4, "q0": 6}
    assert numbers.trail == [(numbers.tables, "q0")]


def test_forms_that_differ_are_not_joined() -> None:
    assert joined(N.floordiv(4), N, N)[0] is None


def test_a_program_of_open_sizes_has_every_node_once(one: LoweredProgram) -> None:
    alone = compiled(f"{RVV}@Q=4", OPEN).program
    assert alone
    assert len(nodes_of(one.body)) == len(nodes_of(alone.body))
    assert one.lengths is not None
    assert (one.lengths.constant, one.lengths.values) == ("Q", LENGTHS)
    trips = [node.trips for node in nodes_of(one.body) if isinstance(node, For)]
    assert any("Q" in count.symbols for count in trips)


def test_remainders_of_fixed_sizes_stand_under_their_length() -> None:
    program = compiled(f"{RVV}@Q=2,4,8", {"M": 4, "N": 37, "K": 7}).program
    assert program
    conditions = {c for node in nodes_of(program.body) if isinstance(node, If) for c in node.conditions}
    assert {(Q, "==", Index.of(v)) for v in LENGTHS} <= conditions


def test_the_check_sees_what_a_join_got_wrong() -> None:
    machine = load_machine(f"{RVV}@Q=8")
    programs = [compiled(f"{RVV}@Q={v}", OPEN).program for v in LENGTHS]
    alone = [program for program in programs if program]
    grown = join_lengths("Q", LENGTHS, alone, machine)
    assert check_join(grown, alone) == ""
    loop = next(n for n, node in enumerate(grown.body) if not isinstance(node, If))
    assert "other nodes where Q = 2" in check_join(replace(grown, body=grown.body[:loop]), alone)
    assert "other nodes where Q = 4" in check_join(grown, [alone[0], alone[0], alone[2]])
    small = tuple(replace(b, elements=Index.of(1)) for b in grown.buffers)
    assert "too little room" in check_join(replace(grown, buffers=small), alone)


def test_words_name_one_value_several_or_any() -> None:
    assert split_word("rvv@Q=2,4,P=3") == ("rvv", {"Q": (2, 4), "P": (3,)})
    assert split_word("rvv@Q=any") == ("rvv", {"Q": ()})
    assert load_machine("riscv-rvv@Q=any").served == ("Q", (2, 4, 8, 16))
    assert load_machine("riscv-rvv@Q=8,4").served == ("Q", (4, 8))
    assert load_machine("riscv-rvv@Q=8").served is None
    assert len({machine_digest(f"riscv-rvv{at}") for at in ("", "@Q=4", "@Q=2,4", "@Q=any")}) == 4


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (asked(f"{RVV}@Q=any", OPEN), "does not say which values `Q` may have"),
        (asked(f"{RVV}@Q=2,99", OPEN), "`Q` of rvv is 2..16, not 99"),
        (asked(f"{RVV}@P=2,4", OPEN), "has no constant called `P`"),
        (replace(asked(f"{RVV}@Q=2,4", OPEN), model=True), "`--model` and a program for several lengths"),
        (replace(asked(f"{RVV}@Q=2,4", OPEN), packed=("B",)), "`--packed` and a program for several lengths"),
    ],
)
def test_what_cannot_be_is_refused(expected: Request, said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        compile_request(expected, "lower")


def test_an_artifact_of_several_machines_has_one_length_of_each() -> None:
    with pytest.raises(UsageProblem, match="not a part of an artifact for several machines"):
        compile_dispatch([asked(f"{RVV}@Q=2,4", OPEN), asked("generic-c", OPEN)])
