"""Programs of VTA's words: performed by us, by a simulator written from its header, and by VTA's own.

VTA's functional simulator is built where ISAMAP_VTA names a folder with its sources
(github.com/apache/tvm-vta), with the few names of dmlc and TVM that it asks for (tests/vta_simulator).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corrupted_words import corrupted
from numpy.typing import NDArray
from own_reading import check_own_reading
from vta_by_hand import PAGE, Tables, Vta

from isamap.driver.encoded_programs import compile_words, program_kernel, verify_program
from isamap.driver.inputs import read_kernel
from isamap.driver.request import Request, Size
from isamap.ir import interpret
from isamap.machine import Machine, load_machine
from isamap.machine.encodings import Quantity
from isamap.simulate.events import simulate
from isamap.source import NoMapping, Source, UsageProblem
from isamap.stream.encoding import decode, decode_end
from isamap.stream.program_file import ProgramFile, read_program, write_program
from isamap.stream.tables import contents_of
from isamap.stream.timing import stream_time
from isamap.stream.tokens import assign_tokens

HERE = Path(__file__).resolve().parents[1]
SHIM = HERE / "vta_simulator"
EXAMPLES = HERE.parent / "docs" / "examples"
PRODUCT, CONVOLUTION = (str(EXAMPLES / f"{name}_s8_blocks.ir") for name in ("gemm", "conv2d"))
CASES: list[tuple[str, dict[str, Size]]] = [
    (PRODUCT, {"M": 1, "N": 1, "K": 1}),
    (PRODUCT, {"M": 37, "N": 2, "K": 3}),
    (PRODUCT, {"M": 70, "N": 4, "K": 9}),
    (PRODUCT, {"M": 1030, "N": 1, "K": 1}),
    (CONVOLUTION, {"H": 5, "W": 6, "C": 2, "K": 1, "R": 2, "S": 3}),
    (str(HERE / "data" / "gemm_s8_even.ir"), {"M": 37, "N": 2, "K": 3}),
]
# Biases of all sizes, as `verify` draws them, leave no sum between the ends.
UNBIASED = Source(
    "unbiased.ir",
    Path(PRODUCT)
    .read_text()
    .replace("  in bias: i32[N, 16] strides(16, 1);\n", "")
    .replace(", align(bias) >= 64", "")
    .replace("= bias[n, j];", "= 0;"),
)
SHORT = Source(
    "short.ir",
    """kernel short() {
      in x: i32[3, 960];
      out y: i8[3, 960];
      for i in 3, j in 960 { y[i, j] = sat_i8(x[i, j] + 256 - ((x[i, j] >> 9) + 1 & 1) >> 9); }
    }""",
)
NAMES = ["row", "ragged", "wide", "long", "convolution", "ties to even"]
Arrays = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("vta")


def compiled(name: str | Source, sizes: dict[str, Size], hw: str = "vta") -> bytes:
    source = name if isinstance(name, Source) else read_kernel(name)
    program, _ = compile_words(Request(source, hw, sizes, heuristic="greedy"))
    return write_program(program)


def started(data: bytes, name: str) -> tuple[Tables, NDArray[Any], Arrays]:
    """Return the file, main memory before the first word, and what the kernel's interpreter makes of it."""
    kernel = program_kernel(read_program(data, "a program"), read_kernel(name))
    rng = np.random.default_rng(7)
    most = {"i8": 127, "i32": 20000}  # most sums become other bytes than the ends
    arrays = {
        o.name: rng.integers(
            -most[o.dtype.name], most[o.dtype.name], tuple(int(n.evaluate({})) for n in o.shape)
        ).astype(o.dtype.numpy())
        for o in kernel.operands
        if o.role != "temp"
    }
    file = Tables(data)
    return file, file.image(arrays), interpret(kernel, arrays, {})


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=NAMES)
def test_words_do_what_the_kernel_says_by_our_reading_and_by_the_header(
    name: str, sizes: dict[str, Size], machine: Machine
) -> None:
    data = compiled(name, sizes)
    check_own_reading(data, read_kernel(name), machine)
    for seed in range(2):  # modules in other orders
        file, memory, expected = started(data, name)
        Vta(memory, seed).run(file.words)
        for output, values in expected.items():
            assert np.array_equal(file.output(memory, output), values)
            assert len(np.unique(values)) > min(20, values.size // 4)


def test_an_axis_that_is_shorter_than_a_tile_is_computed_without_padding(machine: Machine) -> None:
    """960 values are 60 rows of 16; an instruction has up to 1024 rows."""
    data = compiled(SHORT, {})
    check_own_reading(data, SHORT, machine)
    program = read_program(data, "a program")
    commands = [one.command for one in decode(program.words, machine, contents_of(program.tables))]
    assert {dict(command.params)["R"] for command in commands} == {60}
    time = stream_time(program, machine)
    assert time is not None
    assert time.total_ns < 3 * 10 * (8 + 27 + 2) * 60 + 2000, "each row is loaded, computed and stored once"


def test_a_bias_is_read_once_for_all_rows(machine: Machine) -> None:
    """A load of rows reads main memory for each row; one load and two steps of the ALU fill all rows."""
    program = read_program(compiled(PRODUCT, {"M": 70, "N": 4, "K": 9}), "a program")
    commands = [one.command for one in decode(program.words, machine, contents_of(program.tables))]
    loads = [c for c in commands if c.instruction in ("load_acc", "load_acc_row")]
    assert [(c.instruction, dict(c.params)["R"]) for c in loads] == 4 * [("load_acc_row", 70)]


def simulator(folder: Path, there: Path) -> Path:
    """VTA's functional simulator in the configuration that its folder has. Raises: CalledProcessError."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "the simulator is C++"
    told = json.loads((folder / "config" / "vta_config.json").read_text())
    given = {key: value for key, value in told.items() if key.startswith("LOG_")}
    block, width = given.pop("LOG_BLOCK"), given["LOG_INP_WIDTH"]
    given |= {"LOG_BLOCK_IN": block, "LOG_BLOCK_OUT": block, "LOG_OUT_WIDTH": width}
    defined = [f"-DVTA_{key}={value}" for key, value in given.items()]
    sources = [*sorted((folder / "src" / "sim").glob("*.cc")), folder / "src" / "vmem" / "virtual_memory.cc"]
    command = [compiler, "-O1", "-w", "-std=c++17", *defined, f"-I{SHIM}", f"-I{folder / 'include'}"]
    made = there / "run"
    subprocess.run([*command, SHIM / "run.cc", *sources, "-lpthread", "-o", made], check=True)
    return made


@pytest.mark.skipif("ISAMAP_VTA" not in os.environ, reason="ISAMAP_VTA names no folder with VTA's sources")
def test_the_simulator_of_its_authors_runs_the_words(tmp_path: Path) -> None:
    run = simulator(Path(os.environ["ISAMAP_VTA"]), tmp_path)
    for name, sizes in CASES:
        file, memory, expected = started(compiled(name, sizes), name)
        (tmp_path / "image").write_bytes(memory[PAGE:].tobytes())
        (tmp_path / "words").write_bytes(file.body[: 16 * len(file.words)])
        subprocess.run([run, tmp_path / "image", tmp_path / "words"], check=True, timeout=60)
        memory[PAGE:] = np.fromfile(tmp_path / "image", np.uint8)
        assert all(np.array_equal(file.output(memory, output), values) for output, values in expected.items())


SUMS = Path(PRODUCT).read_text().partition("  temp s")[0].replace("in bias: i32[N, 16] strides(16, 1);\n", "")
WHOLE_SUMS = (
    SUMS.replace(", align(bias) >= 64", "").replace("out Y: i8", "inout Y: i32")
    + """  for m in M, n in N, j in 16, k in K, i in 16 {
    Y[m, n, j] += i32(A[m, 16*k + i]) * i32(B[n, k, j, i]);
  }
}
"""
)
REFUSED = [
    (
        Source("sums.ir", WHOLE_SUMS),
        "gemm cannot load or store c: no instruction moves i32 of Y out of acc unchanged",
    ),
    (
        read_kernel("gemm_s8s8"),
        (
            "gemm cannot load or store w: vta has no instruction that copies i8[1, 16, 16] of B into wgt, "
            "where all that is moved begins at multiples of 256 bytes"
        ),
    ),
]


@pytest.mark.parametrize(("kernel", "why"), REFUSED, ids=["whole sums", "rows of weights"])
def test_what_the_machine_does_not_move_is_refused(kernel: Source, why: str) -> None:
    with pytest.raises(NoMapping) as refused:
        compiled(kernel, {"M": 16, "N": 16, "K": 16})
    assert refused.value.diagnostics[0].notes[0] == why


def test_units_are_done_when_tokens_and_costs_say(machine: Machine) -> None:
    row = stream_time(read_program(compiled(PRODUCT, {"M": 1, "N": 1, "K": 1}), "a program"), machine)
    # Sums come behind row and weights over the same bus: begun in cycle 34, there in cycle 92; then 9 cycles
    # for the product, 19 to requantise, 52 to store.
    assert row is not None
    assert row.total_ns == pytest.approx(10 * (92 + 9 + 19 + 52))
    assert row.busy_ns == pytest.approx({"load": 340, "compute": 200, "store": 20})


def test_time_by_tokens_is_that_of_the_event_simulator() -> None:
    sizes: dict[str, Size] = {"M": 64, "N": 8, "K": 32}
    request = Request(read_kernel(PRODUCT), "vta", sizes, heuristic="greedy")
    program, made = compile_words(request)
    assert made.machine
    assert made.program
    assert made.problem
    by_tokens = stream_time(program, made.machine)
    assert by_tokens is not None
    simulated = simulate(made.program, made.machine, made.problem)
    assert by_tokens.total_ns == pytest.approx(simulated.total_ns, rel=0.1)


def test_few_commands_share_a_token_of_a_short_queue(machine: Machine) -> None:
    """The first products start before all weights are there, although the queue has room for four tokens."""
    program = read_program(compiled(PRODUCT, {"M": 4, "N": 8, "K": 9}), "a program")
    commands = [one.command for one in decode(program.words, machine, contents_of(program.tables))]
    assert machine.program is not None
    queues = tuple(replace(queue, depth=4) for queue in machine.program.queues)
    short = replace(machine, program=replace(machine.program, queues=queues))

    def waits(of: Machine) -> list[int]:
        """Return how many loads precede each product that waits for a load."""
        made, _ = assign_tokens(commands, of)
        loads = accumulate(c.instruction.startswith("load_wgt") for c in made)
        told = zip(made, loads, strict=True)
        return [n for c, n in told if c.instruction == "gemm" and ("pop", "load") in c.tokens]

    every = [c.instruction for c in commands].count("load_wgt")
    assert every == 72
    assert len(waits(machine)) == every
    assert 4 <= len(waits(short)) <= every / 4, "neither a token for each load, nor one for all"


def test_copies_of_short_tiles_are_priced_by_the_rows_that_exist() -> None:
    """An instruction takes tiles of 1024 rows; 128 of each exist, and load and ALU are one module."""
    rows = Source(
        "rows.ir", SHORT.text.replace("[3, 960]", "[128, 64]").replace("in 3, j in 960", "in 128, j in 64")
    )
    program, made = compile_words(Request(rows, "vta", {}, heuristic="greedy"))
    assert made.machine
    assert made.schedule
    time = stream_time(program, made.machine)
    assert time is not None
    assert made.schedule.cost_ns == pytest.approx(time.total_ns, rel=0.15)


# --- what is wrong with a file ----------------------------------------------------------------------------

SIZES: dict[str, Size] = {"M": 24, "N": 3, "K": 2}


@pytest.fixture(scope="module")
def program() -> ProgramFile:
    return read_program(compiled(UNBIASED, SIZES), "a program")


def refusal(program: ProgramFile, machine: Machine) -> tuple[str, str] | None:
    """Return what is said of a program that goes wrong, or computes something else; None where it is fine."""
    kernel = program_kernel(program, UNBIASED)
    case = verify_program(read_program(write_program(program), "a program"), machine, kernel, "random")
    if case.ok:
        return None
    (first, *_) = case.problems
    return first.code, first.message


def with_bit(program: ProgramFile, machine: Machine, name: str, nth: int, holds: Quantity) -> ProgramFile:
    """Return the program with one token more or less: of the nth instruction of a name."""
    placed = [
        p
        for p in decode(program.words, machine, contents_of(program.tables))
        if p.command.instruction == name
    ]
    encoding = machine.instructions[name].encoding
    assert encoding is not None
    ((at, field),) = ((at, f) for at, word in enumerate(encoding.words) for f in word if f.holds == holds)
    words = list(program.words)
    words[placed[nth].at + at] ^= field.put(1)
    return replace(program, words=tuple(words))


UNTOLD = "and no token orders the two"
TOKENS: list[tuple[str, int, Quantity, str]] = [
    (
        "gemm",
        0,
        Quantity("pop", "load"),
        "word 7, `gemm`: `a` conflicts with word 0, `load_inp`, which writes it in inp, " + UNTOLD,
    ),
    (
        "load_wgt",
        0,
        Quantity("push", "compute"),
        "word 31, `gemm`: waits for a token of load, which gives none",
    ),
    (
        "store",
        0,
        Quantity("pop", "compute"),
        "word 16, `store`: `x` conflicts with word 9, `requantise_rounded_relu`, which writes it in res, "
        + UNTOLD,
    ),
    (
        "store",
        0,
        Quantity("push", "compute"),
        "word 41, end: does not wait for word 28",
    ),
    (
        "load_inp",
        0,
        Quantity("pop", "compute"),
        "word 0, `load_inp`: waits for a token of compute, which gives none",
    ),
    (
        "gemm",
        2,
        Quantity("push", "store"),
        "word 40, `store`: `x` conflicts with word 33, `requantise_rounded_relu`, which writes it in res, "
        + UNTOLD,
    ),
    (
        "gemm",
        2,
        Quantity("push", "load"),
        "word 31, `gemm`: gives load a token that is never taken",
    ),
]


@pytest.mark.parametrize(("name", "nth", "token", "said"), TOKENS)
def test_a_token_too_many_or_too_few_is_told_with_its_word(
    name: str, nth: int, token: Quantity, said: str, program: ProgramFile, machine: Machine
) -> None:
    assert refusal(with_bit(program, machine, name, nth, token), machine) == ("program-tokens", said)


def test_an_end_that_does_not_wait_is_told(program: ProgramFile, machine: Machine) -> None:
    end = decode_end(program.words, machine)
    assert end is not None
    assert end.command.tokens == {("pop", "store")}
    early = replace(program, words=(*program.words[:-1], end.words[0] & 7))
    assert refusal(early, machine) == ("program-tokens", f"word {end.at}, end: does not wait for word 16")
    cut = replace(program, words=program.words[:-1])
    assert refusal(cut, machine) == (
        "program-word",
        "word 40: the program does not end with the words that all programs of the machine end with",
    )


def test_single_fields_that_are_corrupted_are_caught(machine: Machine) -> None:
    whole = read_program(compiled(UNBIASED, {"M": 64, "N": 3, "K": 3}), "a program")
    assert refusal(whole, machine) is None
    told = {
        said: refusal(wrong, machine) for said, wrong in (corrupted(whole, machine, n) for n in range(40))
    }
    # How far blocks lie apart where one is moved: wrong without consequence.
    found = [said for said, code in told.items() if code is None]
    assert found == ["load_wgt.stride at word 44: 0 to 2", "load_wgt.stride at word 46: 0 to 4"]
    assert {code[0] for code in told.values() if code is not None} >= {"program-tokens", "program-word"}


def test_entries_of_tables_that_are_corrupted_are_caught(program: ProgramFile, machine: Machine) -> None:
    (table,) = program.tables
    assert len(table.entries) == len(set(table.entries)), "commands share entries"
    for bit in range(32):
        spoilt = (table.entries[0] ^ 1 << bit, *table.entries[1:])
        assert refusal(replace(program, tables=(replace(table, entries=spoilt),)), machine) is not None, bit
    wrong = replace(program, tables=(replace(table, offset=table.offset + 2),))
    assert refusal(wrong, machine) == (
        "program-word",
        "word 5: `clear`: no entry of `uops` is at the address in the words",
    )


# --- other queues -----------------------------------------------------------------------------------------


def changed(path: Path, old: str, new: str) -> str:
    """VTA with other queues."""
    text = (HERE.parent / "hw_specs" / "vta.yaml").read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new).replace("name: vta", f"name: {path.stem}", 1))
    return str(path)


def test_a_queue_that_holds_few_tokens_gets_few(tmp_path: Path) -> None:
    little = changed(
        tmp_path / "little.yaml", "from: load, to: compute, depth: 255", "from: load, to: compute, depth: 2"
    )
    few = read_program(compiled(UNBIASED, {"M": 8, "N": 6, "K": 1}, little), "a program")
    there = load_machine(little)
    assert refusal(few, there) is None
    commands = [p.command for p in decode(few.words, there, contents_of(few.tables))]
    assert sum(("push", "compute") in c.tokens for c in commands if c.instruction != "store") <= 2
    full = read_program(compiled(UNBIASED, {"M": 8, "N": 6, "K": 1}), "a program")
    full = replace(full, machine="little", machine_sha256=there.digest)
    assert refusal(full, there) == (
        "program-tokens",
        "word 1, `load_wgt`: the queue from load to compute may hold 6 tokens, and has room for 2",
    )


def test_units_that_no_queue_connects_have_no_program(tmp_path: Path) -> None:
    apart = changed(tmp_path / "apart.yaml", "    - {from: compute, to: store, depth: 255}\n", "")
    apart_text = (
        Path(apart).read_text().replace("pop_prev: {bits: 3, holds: pop.compute}, push_prev", "push_prev")
    )
    Path(apart).write_text(
        apart_text.replace("push_next: {bits: 6, holds: push.store}", "spare: {bits: 6, constant: 0}")
    )
    with pytest.raises(UsageProblem) as refused:
        compiled(UNBIASED, SIZES, apart)
    (found,) = refused.value.diagnostics
    assert (found.code, found.message) == (
        "stream-tokens",
        "store has to wait for compute, for `x` in res, and no queue carries tokens from one to the other",
    )
