"""Words, files and images of programs: what is written is read back, and what is wrong is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from isamap.driver.encoded_programs import compile_words, load_program, program_kernel, verify_program
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import compile_kernel
from isamap.driver.printers import PRINTERS, emit_artifact
from isamap.driver.request import Request
from isamap.lower.work_slices import dense_numbers
from isamap.machine import Machine, load_machine
from isamap.machine.encodings import TOKENS, Quantity
from isamap.source import IsamapError, Source, UsageProblem, VerificationFailed
from isamap.stream.assemble import assemble
from isamap.stream.command import Address, Command, Register, command_of, quantities
from isamap.stream.command_words import encode, entries_of
from isamap.stream.encoding import decode, encode_end
from isamap.stream.execute import execute_program
from isamap.stream.listing import list_program
from isamap.stream.program_file import ProgramFile, read_program, write_program
from isamap.stream.unroll import least_commands

WORDS = str(Path(__file__).parents[1] / "data" / "machines" / "words.yaml")
QUARTER = "kernel quarter(M) { in x: f32[M]; out y: f32[M]; for i in M { y[i] = x[i] * 0.25; } }"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine(WORDS)


@pytest.fixture(scope="module")
def program() -> ProgramFile:
    request = Request(Source("quarter.ir", QUARTER), WORDS, {"M": 24}, heuristic="greedy")
    return compile_words(request)[0]


def drawn(machine: Machine, name: str, random: Random) -> Command:
    """Return a command that any numbers decide which its fields can hold."""
    item = machine.instructions[name]
    assert item.encoding is not None
    found: dict[Quantity, int] = {}
    for field in item.encoding.fields:
        if not isinstance(field.holds, Quantity) or field.holds.kind == "entry":
            continue
        limit = field.limit
        if field.holds.kind == "param" and (p := item.instruction.param(field.holds.name)).dtype is None:
            assert p.high is not None
            limit = int(p.high.evaluate({})) // field.holds.unit + 1
        least = int(field.holds.kind == "param")  # nothing has no elements
        found[field.holds] = random.randrange(least, limit) * field.holds.unit
    return command_of(item.instruction, found)


@pytest.mark.parametrize("described", [WORDS, "gemmini", "edge-npu", "vta"])
def test_whatever_fields_hold_is_read_back_from_the_words(described: str) -> None:
    there, random = load_machine(described), Random(0)
    assert there.program is not None
    for name, item in there.instructions.items():
        for _ in range(20):
            command = drawn(there, name, random)
            entries = entries_of(command, item)
            words = encode(command, item, {table: {entry: 4096} for table, entry in entries.items()})
            assert all(0 <= word < 1 << there.program.word_bits for word in words)
            whole = (*there.program.begin, *words, *encode_end(frozenset(), there))
            (placed,) = decode(whole, there, {table: {4096: entry} for table, entry in entries.items()})
            assert placed.command == command
            assert item.encoding is not None
            told = {q for q in item.encoding.quantities if q.kind not in ("entry", *TOKENS)}
            assert quantities(command, item.instruction).keys() == told


def test_registers_and_numbers_of_a_type_stand_in_words(program: ProgramFile, machine: Machine) -> None:
    load, scale, store = (one.command for one in decode(program.words, machine)[:3])
    assert load == Command("load", (("x", Address("dram", 64, (4,))), ("z", Register("row", 2))))
    assert scale.params == (("S", 0x3E800000),)  # 0.25
    assert store.operands[1] == ("z", Address("dram", 192, (4,)))
    assert program.words[1] == 3 << 126 | 3 << 102 | 2 << 100 | 0x3E800000


def test_a_program_does_what_its_kernel_says(program: ProgramFile, machine: Machine) -> None:
    x = np.arange(24, dtype=np.float32)
    assert np.array_equal(execute_program(program, machine, {"x": x})["y"], x / 4)


def test_registers_and_rows_that_the_schedule_chose_stand_in_words_of_the_edge_npu() -> None:
    npu, kernel = load_machine("edge-npu"), read_kernel("gemm_s8s8")
    request = Request(kernel, "edge-npu", {"M": 40, "N": 64, "K": 33}, heuristic="greedy")
    product = read_program(write_program(compile_words(request)[0]), "p")
    assert verify_program(product, npu, program_kernel(product, kernel), "random").ok
    streams = [one.command for one in decode(product.words, npu) if one.command.instruction == "stream"]
    assert {dict(one.operands)["b"] for one in streams} <= {Register("weights", 0), Register("weights", 1)}
    assert {dict(one.params)["M"] for one in streams} <= {32 * rows for rows in range(1, 9)}


def test_a_file_is_read_back_whole(program: ProgramFile) -> None:
    data = write_program(program)
    assert read_program(data, "p") == program
    assert len(data) % 16 == 0, "the words begin at a multiple of 16, and have 16 bytes each"


def spoilt(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


DAMAGED: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda d: b"", "p is not a program: it does not begin with ISAMPROG"),
    (
        lambda d: spoilt(d, b"ISAMPROG\x01", b"ISAMPROG\x02"),
        "p is not a program: its version is 2, and this reads 1",
    ),
    (lambda d: d[:40], "p is not a program: its header is damaged"),
    (lambda d: spoilt(d, b'"kernel"', b'"kernle"'), "p is not a program: its header is damaged"),
    (lambda d: spoilt(d, b'"f32"', b'"f33"'), "p is not a program: its header is damaged"),
    (lambda d: spoilt(d, b'"offset": 192', b'"offset": 999'), "p is not a program: its header is damaged"),
    (lambda d: spoilt(d, b'"shape": [24]', b'"shape": [-4]'), "p is not a program: its header is damaged"),
    (lambda d: spoilt(d, b'"dram": 320', b'"dram": 9e9'), "p is not a program: its header is damaged"),
    (lambda d: d[:-1], "p is not a program: it has 143 bytes of words, and its header promises 144"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGED)
def test_a_damaged_file_is_refused(damage: Callable[[bytes], bytes], said: str, program: ProgramFile) -> None:
    with pytest.raises(VerificationFailed) as refused:
        read_program(damage(write_program(program)), "p")
    assert [(d.code, d.message) for d in refused.value.diagnostics] == [("program-file", said)]


SCALE = 3 << 126
LOAD, STORE = 1 << 126, 2 << 126
WRONG: list[tuple[int, int, str]] = [
    (1, 0, f"word 1: {0:#034x} and the next words are not an instruction of words"),
    (
        1,
        SCALE | 1 << 110,
        f"word 1: {SCALE | 1 << 110:#034x} and the next words are not an instruction of words",
    ),
    (0, LOAD | 80, "word 0, `load`: `x` reaches dram + 351, which has 320 bytes"),
    (0, LOAD | 0, "word 0, `load`: `x` at dram + 0 is not within one array"),
    (0, LOAD | 34, "word 0, `load`: `x` at dram + 136 is not within one array"),
    (0, LOAD | 48, "word 0, `load`: `x` is read at dram + 192, never written before"),
    (1, SCALE | 1 << 100, "word 1, `scale`: `x` is register 1 of row, which has no such registers"),
    (2, STORE | 16, "word 2, `store`: `z` is written into `x`, an input"),
]


@pytest.mark.parametrize(("at", "word", "said"), WRONG)
def test_words_that_go_wrong_are_told(
    at: int, word: int, said: str, program: ProgramFile, machine: Machine
) -> None:
    wrong = replace(program, words=(*program.words[:at], word, *program.words[at + 1 :]))
    with pytest.raises(VerificationFailed) as refused:
        execute_program(wrong, machine, {"x": np.zeros(24, np.float32)})
    (found,) = refused.value.diagnostics
    assert (found.code, found.message) == ("program-access" if "`" in said else "program-word", said)


def test_a_program_that_was_cut_is_told(program: ProgramFile, machine: Machine) -> None:
    cut = replace(program, words=program.words[:-1])
    with pytest.raises(VerificationFailed, match="the words are 8 instructions, and the header promises 9"):
        execute_program(cut, machine, {"x": np.zeros(24, np.float32)})


def refusal(act: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(IsamapError) as refused:
        act()
    (found,) = refused.value.diagnostics
    return found.code, found.message


def test_a_program_of_something_else_is_refused(
    program: ProgramFile, machine: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "quarter.program"
    path.write_bytes(write_program(program))
    assert load_program(str(path), machine) == program
    assert refusal(lambda: load_program(str(path), load_machine("gemmini"))) == (
        "program-mismatch", f"{path} was made for words",
    )  # fmt: skip
    path.write_bytes(write_program(replace(program, machine_sha256="0" * 64)))
    assert refusal(lambda: load_program(str(path), machine)) == (
        "program-mismatch", f"{path} was made for another description of words",
    )  # fmt: skip
    half = Source("half.ir", QUARTER.replace("f32", "f64"))
    assert refusal(lambda: program_kernel(program, half)) == (
        "program-mismatch", "the program is of `quarter`, whose arrays are not those of `quarter`",
    )  # fmt: skip


def test_each_printer_makes_files_that_are_called_after_the_program() -> None:
    request = Request(read_kernel("gemm_s8s8"), "gemmini", {"M": 16, "N": 16, "K": 32}, heuristic="greedy")
    made = compile_words(request)[1]
    assert made.program is not None
    assert made.machine is not None
    lanes = compile_kernel(
        Request(read_kernel("gemm_f32"), "opencl-simt", {"M": 4, "N": 4, "K": 4}, heuristic="greedy")
    )
    for kind in PRINTERS:
        by = lanes if kind == "kernels" else made
        assert by.program is not None
        assert by.machine is not None
        artifact = emit_artifact(by.program, by.machine, kind, model=kind == "code")
        assert artifact.files(), kind
        assert all(name.startswith(artifact.name) for name in artifact.files()), kind
    words = emit_artifact(made.program, made.machine, "program").files()["gemm_s8s8-gemmini.program"]
    assert isinstance(words, bytes)
    assert read_program(words, "words") == compile_words(request)[0]


def test_a_program_without_end_is_refused(machine: Machine) -> None:
    request = Request(Source("quarter.ir", QUARTER), WORDS, {"M": 4096}, heuristic="greedy")
    lowered = compile_words(request)[1].program
    assert lowered is not None
    assert refusal(lambda: assemble(lowered, machine, most=100)) == (
        "stream-too-long", "the program has more than 100 instructions: its loops are written out",
    )  # fmt: skip


@pytest.mark.parametrize(("sizes", "is_exact"), [((32, 48, 64), True), ((33, 50, 70), False)])
def test_a_lower_bound_of_a_programs_commands_needs_no_words(
    sizes: tuple[int, int, int], *, is_exact: bool
) -> None:
    request = Request(
        read_kernel("gemm_s8s8"), "gemmini", dict(zip("MNK", sizes, strict=True)), heuristic="greedy"
    )
    file, made = compile_words(request)
    assert made.program is not None
    least = least_commands(made.program.body, dense_numbers(made.program, {}))
    assert 0 < least <= file.instructions
    assert (least == file.instructions) == is_exact, "parts of tiles may have no elements"


def test_a_number_beyond_its_field_is_refused(machine: Machine) -> None:
    far = Command("store", (("x", Register("row", 0)), ("z", Address("dram", 1 << 23, (4,)))))
    assert refusal(lambda: encode(far, machine.instructions["store"])) == (
        "encoding-range",
        "field `to` of `store` cannot hold `z.address` = 8388608: it is beyond 2097151 of 4 each",
    )


def test_sizes_that_are_open_have_no_program() -> None:
    request = Request(Source("quarter.ir", QUARTER), WORDS, {"M": "8..64"}, heuristic="greedy")
    with pytest.raises(UsageProblem, match="a program is made for numbers, and M is a range"):
        compile_words(request)


def test_a_listing_shows_registers_and_bits(program: ProgramFile, machine: Machine) -> None:
    assert list_program(program, machine).splitlines()[-9:-6] == [
        "0  load   x=x+0 z=row2                # x dram[0x40]",
        "1  scale  x=row2 z=row3 S=0x3e800000",
        "2  store  x=row3 z=y+0                # z dram[0xc0]",
    ]
