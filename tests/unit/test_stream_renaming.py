"""Registers named in turn: which names commands get, and that each reads what it read before."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from isamap.driver.encoded_programs import compile_words, program_kernel, verify_program
from isamap.driver.request import Request
from isamap.machine import load_machine
from isamap.source import Source
from isamap.stream.command import Address, Command, Register
from isamap.stream.encoding import decode, rename_registers

KERNELS = Path(__file__).parents[2] / "kernels"
MACHINE = load_machine("vector-dsp")


def load(number: int) -> Command:
    return Command("load_v", (("a", Address("local", 0, (1,))), ("z", Register("v", number))))


def product(a: int, b: int, c: int) -> Command:
    named = (("a", Register("v", a)), ("b", Register("v", b)), ("c", Register("w", c)))
    return Command("mac", named)


def registers(command: Command) -> dict[str, int]:
    return {name: where.number for name, where in command.operands if isinstance(where, Register)}


def test_each_load_takes_another_register_and_products_read_the_last_one() -> None:
    found = [
        registers(c) for c in rename_registers([load(0), load(1), *[load(0), product(0, 1, 2)] * 5], MACHINE)
    ]
    loads = [found[at]["z"] for at in range(2, len(found), 2)]
    assert len(set(loads[:4])) == 4, "four in turn"
    assert loads[4] == loads[0]
    for at in range(3, len(found), 2):
        assert found[at] == {"a": found[at - 1]["z"], "b": found[1]["z"], "c": 2}


def test_registers_that_products_add_to_keep_their_names() -> None:
    found = [registers(c)["c"] for c in rename_registers([load(0), *[product(0, 0, 3)] * 6], MACHINE)[1:]]
    assert set(found) == {3}


def test_where_all_registers_are_named_nothing_changes() -> None:
    commands = [load(number) for number in range(32)]
    assert rename_registers(commands, MACHINE) == commands


def test_a_kernel_s_program_loads_its_weights_into_registers_in_turn() -> None:
    source = Source("gemm_s8s8", (KERNELS / "gemm_s8s8.ir").read_text())
    sizes = {"M": 32, "N": 256, "K": 256}
    program, made = compile_words(Request(source, "edge-npu", sizes, heuristic="greedy"))
    assert made.machine is not None
    found = [
        where.number
        for one in decode(program.words, made.machine)
        for _, where in one.command.operands
        if isinstance(where, Register) and one.command.instruction.startswith("load_weights")
    ]
    assert len(found) == 64
    assert all(a != b for a, b in pairwise(found))
    kernel = program_kernel(program, source)
    assert verify_program(program, made.machine, kernel, "edges").ok
