"""Programs of vector-dsp's words: slots, loops of the hardware, descriptors; performed by us and by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corrupted_words import corrupted
from dsp_by_hand import Dsp
from numpy.typing import NDArray
from own_reading import check_own_reading
from vta_by_hand import Tables

from isamap.driver.encoded_programs import compile_words, program_kernel, verify_program
from isamap.driver.inputs import read_kernel
from isamap.driver.request import Request, Size
from isamap.ir import interpret
from isamap.machine import Machine, load_machine
from isamap.stream.listing import list_program
from isamap.stream.program_file import ProgramFile, read_program, write_program

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
CASES: list[tuple[str, dict[str, Size]]] = [
    ("gemm_s8s8", {"M": 1, "N": 1, "K": 1}),
    ("gemm_s8s8", {"M": 5, "N": 70, "K": 33}),
    ("gemm_s8s8", {"M": 16, "N": 128, "K": 96}),
    (str(EXAMPLES / "conv2d_s8.ir"), {"N": 1, "H": 4, "W": 5, "C": 20, "K": 18, "R": 3, "S": 2}),
    (str(EXAMPLES / "gemm_requant.ir"), {"M": 6, "N": 70, "K": 20}),
    (str(EXAMPLES / "conv2d_s8_requant.ir"), {"N": 1, "H": 4, "W": 5, "C": 9, "K": 33, "R": 3, "S": 2}),
]
NAMES = ["one", "ragged", "blocks", "convolution", "scaled", "channels"]
WHOLE: dict[str, Size] = {"M": 4, "N": 64, "K": 24}


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("vector-dsp")


@pytest.fixture(scope="module")
def program() -> ProgramFile:
    return read_program(compiled("gemm_s8s8", WHOLE), "a program")


def compiled(name: str, sizes: dict[str, Size]) -> bytes:
    program, _ = compile_words(Request(read_kernel(name), "vector-dsp", sizes, heuristic="greedy"))
    return write_program(program)


def arrays_of(program: ProgramFile) -> dict[str, NDArray[Any]]:
    """Arrays of which most sums become other bytes than the ends."""
    rng = np.random.default_rng(3)
    made = {"i8": (-127, 127, 1), "i32": (-2000, 2000, 1), "f32": (1, 60, 4096)}
    found: dict[str, NDArray[Any]] = {}
    for array in (a for a in program.arrays if a.role != "buffer"):
        low, high, over = made[array.dtype.name]
        numbers = rng.integers(low, high, array.shape)
        found[array.name] = (numbers if over == 1 else numbers / over).astype(array.dtype.numpy())
    return found


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=NAMES)
def test_words_do_what_the_kernel_says_by_our_reading_and_by_hand(
    name: str, sizes: dict[str, Size], machine: Machine
) -> None:
    data = compiled(name, sizes)
    check_own_reading(data, read_kernel(name), machine)
    read = read_program(data, "a program")
    arrays, file = arrays_of(read), Tables(data, word_bytes=32)
    memory = file.image(arrays)
    by_hand = Dsp(memory)
    by_hand.run(file.words)
    for output, values in interpret(program_kernel(read, read_kernel(name)), arrays, {}).items():
        assert np.array_equal(file.output(memory, output), values)
        assert len(np.unique(values)) > min(20, values.size // 4)


def test_slots_of_a_word_and_loops_hold_most_of_what_is_done(program: ProgramFile) -> None:
    data = write_program(program)
    file = Tables(data, word_bytes=32)
    by_hand = Dsp(file.image(arrays_of(program)))
    by_hand.run(file.words)
    products, descriptors = 4 * 24, len(program.tables[0].entries)
    assert by_hand.words < 1.2 * products + descriptors, "loads stand beside products"
    assert by_hand.shared > products
    assert by_hand.loops > 0
    assert len(file.words) < products // 2 + descriptors, "a loop stands for most of the sums"


def test_the_listing_shows_words_of_several_slots_and_loops(program: ProgramFile, machine: Machine) -> None:
    lines = [" ".join(line.split()) for line in list_program(program, machine).splitlines()]
    at = next(n for n, line in enumerate(lines) if " loop " in line)
    number, said = lines[at].split(" ", 1)
    assert said == "loop 5 times 16 words"
    assert lines[at + 1] == f"{int(number) + 1} load_repeated_v a=a_tiles0+2 z=v2 # a local[0x2] step 4"
    assert lines[at + 2] == "| load_v a=b_tiles0+192 z=v1 # a local[0x120] step 256"


def refusal(program: ProgramFile, machine: Machine) -> tuple[str, str] | None:
    """Return what is said of a program that goes wrong, or computes something else; None where it is fine."""
    kernel = program_kernel(program, read_kernel("gemm_s8s8"))
    case = verify_program(read_program(write_program(program), "a program"), machine, kernel, "random")
    return None if case.ok else (case.problems[0].code, case.problems[0].message)


def test_single_fields_that_are_corrupted_are_caught(program: ProgramFile, machine: Machine) -> None:
    assert refusal(program, machine) is None
    spoilt = (corrupted(program, machine, seed) for seed in range(40))
    told = {said: refusal(wrong, machine) for said, wrong in spoilt}
    assert [said for said, code in told.items() if code is None] == []


def test_fields_of_descriptors_that_are_corrupted_are_caught(program: ProgramFile, machine: Machine) -> None:
    """Of a row that leaves: of one that is brought, more rows than are needed do no harm."""
    (table,) = program.tables
    leaves = next(word for word in program.words if word >> 254 == 1 and word & 15 == 5)
    at = ((leaves >> 4 & (1 << 24) - 1) * 16 - table.offset) // 16
    missed: list[int] = []
    for bit in (*range(0, 40, 2), *range(64, 128, 3)):
        entries = list(table.entries)
        entries[at] ^= 1 << bit
        spoilt = replace(program, tables=(replace(table, entries=tuple(entries)),))
        if refusal(spoilt, machine) is None:
            missed.append(bit)
    assert missed == []


def with_word(program: ProgramFile, at: int, word: int) -> ProgramFile:
    return replace(program, words=(*program.words[:at], word, *program.words[at + 1 :]))


def test_loops_that_are_corrupted_are_caught(program: ProgramFile, machine: Machine) -> None:
    at = next(n for n, word in enumerate(program.words) if word >> 254 == 2)
    loop = program.words[at]
    for bit in (*range(0, 34, 3), 32, 33, 34, 40, 47, 48, 100, 254, 255):
        assert refusal(with_word(program, at, loop ^ 1 << bit), machine) is not None, bit
    assert refusal(with_word(program, at, 2 << 254 | 1 << 32), machine) == (
        "program-word",
        f"word {at}: a loop of 1 words, 0 times: {len(program.words) - at - 1} words are left",
    )
    count = loop >> 32 & 0xFFFF
    unrolled = (*program.words[:at], *program.words[at + 1 :])
    assert refusal(replace(program, words=unrolled), machine) == (
        "program-word",
        f"word {at}: an address grows in each iteration of a loop, and there is none",
    )
    within = (*program.words[:at], 2 << 254 | (count + 1) << 32 | 2, *program.words[at:])
    told = refusal(replace(program, words=within), machine)
    assert told is not None
    assert told[1].startswith(f"word {at + 1}: ")


def test_two_of_a_word_that_write_the_same_are_caught(machine: Machine, program: ProgramFile) -> None:
    """The second slot for loads gets what is in the first one."""
    at, word = next(
        (n, word)
        for n, word in enumerate(program.words)
        if word >> 254 == 1 and word >> 28 & (1 << 40) - 1 and not word >> 68 & (1 << 40) - 1
    )
    twice = word | (word >> 28 & (1 << 40) - 1) << 68
    more = replace(with_word(program, at, twice), instructions=program.instructions + 1)
    told = refusal(more, machine)
    assert told is not None
    code, message = told
    assert code == "program-access"
    assert "another instruction of the word also writes" in message
    assert message.startswith(f"word {at}, `load_")
    empty = with_word(program, at, 1 << 254)
    assert refusal(empty, machine) == (
        "program-word",
        f"word {at}: {1 << 254:#x} has nothing in any slot",
    )
