"""Tiles that stay in scratchpads: streams without redundant loads and stores compute the same."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np

from isamap.hw_specs import machine_path
from isamap.ir import DTYPES
from isamap.machine import Machine, load_machine
from isamap.stream.command import Address, Command
from isamap.stream.encoding import encode_all, encode_end
from isamap.stream.execute import execute_program
from isamap.stream.memory_layout import StreamArray, memory_sizes
from isamap.stream.program_file import ProgramFile
from isamap.stream.residency import StepCommands, keep_tiles

TILE = 32 * 32 * 4
SIDE = 64
"""The tensors are squares of four tiles."""
A, T, Y = (
    StreamArray(name, role, "dram", DTYPES["f32"], (SIDE, SIDE), 64 + n * 4 * TILE)
    for n, (name, role) in enumerate((("A", "in"), ("T", "buffer"), ("Y", "out")))
)


def outside(array: StreamArray, tile: int) -> Address:
    row, column = divmod(tile, 2)
    return Address("dram", array.offset + 4 * (row * 32 * SIDE + column * 32), (4 * SIDE, 4))


def slot(number: int) -> Address:
    return Address("spad", number * TILE, (128, 4))


def load(array: StreamArray, tile: int, to: int) -> Command:
    return Command("dma_in_f32", (("x", outside(array, tile)), ("z", slot(to))), (("R", 32), ("C", 32)))


def store(source: int, array: StreamArray, tile: int) -> Command:
    return Command("dma_out_f32", (("x", slot(source)), ("y", outside(array, tile))), (("R", 32), ("C", 32)))


def relu(source: int, to: int) -> Command:
    return Command("relu_floats", (("x", slot(source)), ("y", slot(to))), (("R", 32),))


def add(one: int, other: int, to: int) -> Command:
    return Command("add_floats", (("x", slot(one)), ("y", slot(other)), ("z", slot(to))), (("R", 32),))


def largest(source: int, to: int) -> Command:
    return Command("max_into_floats", (("x", slot(source)), ("z", slot(to))), (("R", 32),))


def names(commands: list[Command]) -> list[str]:
    return [command.instruction for command in commands]


def results(commands: list[Command], machine: Machine) -> np.ndarray:
    assert machine.program is not None
    words = [*machine.program.begin, *encode_all(commands, machine, {}), *encode_end(frozenset(), machine)]
    sizes = memory_sizes(machine, {array.name: array for array in (A, T, Y)}, Y.offset + Y.size_bytes)
    program = ProgramFile(
        "k", machine.name, machine.digest, {}, 64, len(commands), sizes, (A, T, Y), tuple(words)
    )
    values = np.random.default_rng(0).standard_normal((SIDE, SIDE)).astype(np.float32)
    return execute_program(program, machine, {"A": values})["Y"]


def small(folder: Path, tiles: int) -> Machine:
    """Return the machine with a scratchpad of so many tiles."""
    text = machine_path("edge-npu").read_text(encoding="utf-8")
    assert "bytes = 524288" in text
    path = folder / "edge-npu.yaml"
    path.write_text(text.replace("bytes = 524288", f"bytes = {tiles * TILE}"), encoding="utf-8")
    return load_machine(str(path))


def test_a_tile_that_was_stored_is_not_loaded_again() -> None:
    machine = load_machine("edge-npu")
    given = [load(A, 0, 0), relu(0, 1), store(1, T, 0), load(T, 0, 0), add(0, 0, 2), store(2, Y, 0)]
    (kept,) = keep_tiles([StepCommands(given)], machine)
    assert names(kept) == ["dma_in_f32", "relu_floats", "dma_out_f32", "add_floats", "dma_out_f32"]
    (kept,) = keep_tiles([StepCommands(given, own=(T,))], machine)
    assert names(kept) == ["dma_in_f32", "relu_floats", "add_floats", "dma_out_f32"]


def test_a_tensor_between_steps_is_stored_and_not_loaded() -> None:
    parts = [
        StepCommands([load(A, 0, 0), relu(0, 1), store(1, T, 0)]),
        StepCommands([load(T, 0, 5), store(5, Y, 0)]),
    ]
    first, second = keep_tiles(parts, load_machine("edge-npu"))
    assert (names(first), names(second)) == (["dma_in_f32", "relu_floats", "dma_out_f32"], ["dma_out_f32"])


def test_a_tile_is_loaded_again_after_its_bytes_have_changed() -> None:
    machine = load_machine("edge-npu")
    begin, again = [load(A, 0, 0), store(0, T, 0)], [load(T, 0, 1), store(1, Y, 0)]
    by_host = keep_tiles([StepCommands(begin), StepCommands(again, changed=(T,))], machine)
    assert names(by_host[1]) == ["dma_in_f32", "dma_out_f32"]
    (by_store,) = keep_tiles([StepCommands([*begin, load(A, 3, 2), store(2, T, 0), *again])], machine)
    assert by_store[-1] == store(2, Y, 0), "the later tile is the one that T holds"


def test_a_tile_moves_if_its_place_is_taken_and_is_loaded_again_without_room(tmp_path: Path) -> None:
    given = [
        load(A, 0, 0),
        store(0, Y, 0),
        load(A, 1, 0),
        relu(0, 1),
        store(1, Y, 1),
        load(A, 0, 0),
        store(0, Y, 2),
    ]
    for tiles, loads in ((3, 2), (2, 3)):
        machine = small(tmp_path, tiles)
        (kept,) = keep_tiles([StepCommands(given)], machine)
        assert names(kept).count("dma_in_f32") == loads
        np.testing.assert_array_equal(results(kept, machine), results(given, machine))


def test_repeated_columns_are_written_once() -> None:
    """A tile of a value by row is loaded column by column, each from the same bytes."""

    def column(number: int, to: int) -> Command:
        operands = ("x", outside(A, 0)), ("z", Address("spad", to * TILE + 4 * number, (128, 4)))
        return Command("dma_in_f32", operands, (("R", 32), ("C", 1)))

    def repeated(to: int) -> list[Command]:
        return [column(number, to) for number in range(32)]

    given = [*repeated(0), store(0, Y, 0), *repeated(1), add(0, 1, 2), store(2, Y, 1)]
    (kept,) = keep_tiles([StepCommands(given)], load_machine("edge-npu"))
    assert names(kept).count("dma_in_f32") == 32


def test_any_commands_compute_the_same_with_fewer_loads(tmp_path: Path) -> None:
    machine, given_loads, kept_loads = small(tmp_path, 8), 0, 0
    for seed in range(30):
        random = Random(seed)
        filled, stored, given = set[int](), set[int](), list[Command]()
        for _ in range(40):
            choice, to = random.random(), random.randrange(6)
            if choice < 0.4 or not filled:
                array, tile = (
                    (T, random.choice(sorted(stored)))
                    if stored and choice < 0.2
                    else (A, random.randrange(3))
                )
                given.append(load(array, tile, to))
                filled.add(to)
            elif choice < 0.6:
                tile = random.randrange(3)
                given.append(store(random.choice(sorted(filled)), T, tile))
                stored.add(tile)
            elif choice < 0.7 and to in filled:
                given.append(largest(random.choice(sorted(filled)), to))
            else:
                one, other = random.choice(sorted(filled)), random.choice(sorted(filled))
                given.append(add(one, other, to) if choice < 0.85 else relu(one, to))
                filled.add(to)
        given += [store(random.choice(sorted(filled)), Y, tile) for tile in range(4)]
        (kept,) = keep_tiles([StepCommands(given, own=(T,))], machine)
        np.testing.assert_array_equal(results(kept, machine), results(given, machine), f"seed {seed}")
        given_loads += names(given).count("dma_in_f32")
        kept_loads += names(kept).count("dma_in_f32")
    assert kept_loads < 0.8 * given_loads


# --- rows: a tile of one step is often made of parts of tiles of the step before ----------------------------


def part(array: StreamArray, row: int) -> Address:
    return Address("dram", array.offset + 4 * row * SIDE, (4 * SIDE, 4))


def at_row(row: int) -> Address:
    return Address("spad", 128 * row, (128, 4))


def load_rows(array: StreamArray, row: int, count: int, to: int) -> Command:
    return Command("dma_in_f32", (("x", part(array, row)), ("z", at_row(to))), (("R", count), ("C", 32)))


def store_rows(source: int, count: int, array: StreamArray, row: int) -> Command:
    return Command("dma_out_f32", (("x", at_row(source)), ("y", part(array, row))), (("R", count), ("C", 32)))


def relu_rows(source: int, count: int, to: int) -> Command:
    return Command("relu_floats", (("x", at_row(source)), ("y", at_row(to))), (("R", count),))


def two_parts(second: int) -> list[Command]:
    """Store rows 0 to 19 and 20 to 39 of T, the others from row `second` of the scratchpad."""
    first = [load_rows(A, 0, 20, 0), relu_rows(0, 20, 100), store_rows(100, 20, T, 0)]
    return [*first, load_rows(A, 20, 20, 0), relu_rows(0, 20, second), store_rows(second, 20, T, 20)]


def test_rows_of_two_tiles_are_one_tile() -> None:
    machine = load_machine("edge-npu")
    for second in (120, 160):  # neighbours, and others that have to become neighbours
        given = [*two_parts(second), load_rows(T, 10, 20, 40), store_rows(40, 20, Y, 0)]
        (kept,) = keep_tiles([StepCommands(given, own=(T,))], machine)
        assert names(kept) == ["dma_in_f32", "relu_floats"] * 2 + ["dma_out_f32"]
        np.testing.assert_array_equal(results(kept, machine), results(given, machine))


def test_rows_that_change_in_between_are_loaded() -> None:
    machine = load_machine("edge-npu")
    given = [*two_parts(120), store_rows(0, 1, T, 15), load_rows(T, 10, 20, 40), store_rows(40, 20, Y, 0)]
    (kept,) = keep_tiles([StepCommands(given, own=(T,))], machine)
    assert names(kept).count("dma_in_f32") == 3
    np.testing.assert_array_equal(results(kept, machine), results(given, machine))


def test_the_part_of_a_tile_that_is_in_no_scratchpad_is_loaded_next_to_the_rest() -> None:
    """An image with a border: one tile is the border above and below, and can lie in one of both places."""
    machine = load_machine("edge-npu")
    begun = [load_rows(A, 0, 4, 0), store_rows(0, 4, T, 0), store_rows(0, 4, T, 24)]
    inner = [load_rows(A, 8, 20, 40), relu_rows(40, 20, 80), store_rows(80, 20, T, 4)]
    again = [load_rows(T, row, count, 120 + row) for row, count in ((0, 4), (4, 20), (24, 4))]
    given = [*begun, *inner, *again, relu_rows(120, 28, 200), store_rows(200, 28, Y, 0)]
    (kept,) = keep_tiles([StepCommands(given)], machine)
    loads = [command for command in kept if command.instruction == "dma_in_f32"]
    assert [dict(command.params)["R"] for command in loads] == [4, 20, 4]
    np.testing.assert_array_equal(results(kept, machine), results(given, machine))


def test_any_rows_compute_the_same_with_fewer_loads(tmp_path: Path) -> None:
    machine, given_loads, kept_loads = small(tmp_path, 6), 0, 0
    for seed in range(60):
        random, given = Random(seed), list[Command]()
        filled, stored = np.zeros(160, np.bool_), np.zeros(SIDE, np.bool_)

        def drawn(of: np.ndarray, random: Random = random) -> tuple[int, int] | None:
            """Return a row and a number of rows of which all have a value."""
            row = random.randrange(0, of.size - 32, 8)
            count = random.choice((8, 8, 16, 24, 32))
            return (row, count) if of[row : row + count].all() else None

        for _ in range(80):
            choice, to = random.random(), random.randrange(0, 128, 8)
            if choice < 0.45 and (known := drawn(stored)):
                given.append(load_rows(T, *known, to))
                filled[to : to + known[1]] = True
            elif choice < 0.55 or not filled.any():
                given.append(load_rows(A, random.randrange(0, 32, 8), 16, to))
                filled[to : to + 16] = True
            elif known := drawn(filled):
                if choice < 0.75:
                    given.append(store_rows(*known, T, row := random.randrange(0, 32, 8)))
                    stored[row : row + known[1]] = True
                elif to + known[1] <= known[0] or known[0] + known[1] <= to:
                    given.append(relu_rows(*known, to))
                    filled[to : to + known[1]] = True
        given += [store_rows(int(filled.argmax()), 1, Y, row) for row in range(SIDE)]
        given += [store_rows(row, 8, Y, row % SIDE) for row in range(0, 160, 8) if filled[row]]
        (kept,) = keep_tiles([StepCommands(given, own=(T,))], machine)
        np.testing.assert_array_equal(results(kept, machine), results(given, machine), f"seed {seed}")
        given_loads += names(given).count("dma_in_f32")
        kept_loads += names(kept).count("dma_in_f32")
    assert kept_loads < 0.8 * given_loads
