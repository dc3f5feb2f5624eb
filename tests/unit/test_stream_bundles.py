"""Words with slots: packed so that no result changes, repeated by loops of the hardware, read back."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import numpy as np
import pytest

from isamap.machine import Machine, load_machine
from isamap.machine.encodings import Bundle
from isamap.source import UsageProblem
from isamap.stream.accesses import AccessedBytes, accesses
from isamap.stream.command import Address, Command, Register
from isamap.stream.command_words import Numbered
from isamap.stream.encoding import (
    MOST_AHEAD,
    BundleCommands,
    Run,
    SlotCommand,
    encode_runs,
    expand,
    pack,
    read_runs,
    roll,
)
from isamap.stream.timing import Clock


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("vector-dsp")


@pytest.fixture(scope="module")
def bundle(machine: Machine) -> Bundle:
    assert machine.program is not None
    assert machine.program.bundle is not None
    return machine.program.bundle


def load(register: int, address: int) -> Command:
    return Command("load_v", (("a", Address("local", address, (1,))), ("z", Register("v", register))))


def store(register: int, address: int) -> Command:
    return Command("store_v", (("a", Register("v", register)), ("z", Address("local", address, (1,)))))


def mac(a: int, b: int, c: int) -> Command:
    return Command("mac", (("a", Register("v", a)), ("b", Register("v", b)), ("c", Register("w", c))))


def drawn(rng: Random) -> Command:
    one, other = rng.randrange(4), rng.randrange(4)
    return rng.choice(
        (load(one, 64 * rng.randrange(6)), store(one, 64 * rng.randrange(6)), mac(one, other, one % 2))
    )


def bytes_of(access: AccessedBytes) -> list[int]:
    return access.of(np.arange(access.end)).reshape(-1).tolist()


def history(commands: list[list[Command]], machine: Machine) -> dict[tuple[str, int], list[str]]:
    """By byte or register what happens to it, in order; reads between two writes as a set."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    reads: dict[tuple[str, int], list[str]] = defaultdict(list)
    for word in commands:
        touched = [
            (str(command), access)
            for command in word
            for access in accesses(command, machine.instructions[command.instruction].instruction)
        ]
        for said, access in touched:
            for at in bytes_of(access) if access.is_read else ():
                reads[access.memory, at].append(said)
        for said, access in touched:
            for at in bytes_of(access) if access.is_written else ():
                found[access.memory, at] += [*sorted(reads.pop((access.memory, at), [])), f"written {said}"]
    for place, left in reads.items():
        found[place] += sorted(left)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_packed_words_read_and_write_in_the_order_of_the_commands(
    seed: int, machine: Machine, bundle: Bundle
) -> None:
    rng = Random(seed)
    commands = [drawn(rng) for _ in range(60)]
    words = pack(commands, machine, bundle)
    assert len(words) < len(commands)
    packed = [[one.command for one in word] for word in words]
    assert history(packed, machine) == history([[c] for c in commands], machine)
    for word in words:
        assert all(
            bundle.slots[one.slot].unit == machine.instructions[one.command.instruction].cost.unit
            for one in word
        )
        assert len({one.slot for one in word}) == len(word)


def test_what_needs_nothing_goes_back_no_farther_than_a_few_words(machine: Machine, bundle: Bundle) -> None:
    chain = [mac(0, 1, 2)] * 40
    words = pack([*chain, load(3, 0)], machine, bundle)
    (at,) = (n for n, word in enumerate(words) if len(word) > 1)
    assert at == 40 - MOST_AHEAD


def alone(commands: list[Command]) -> list[BundleCommands]:
    return [(SlotCommand(1 if command.instruction == "load_v" else 4, command),) for command in commands]


def read_back(words: list[BundleCommands], machine: Machine, bundle: Bundle) -> tuple[Run, ...]:
    """Return the runs of words that were rolled, written and read; what they perform is what the words do."""
    runs = roll(words, machine, bundle)
    written = list(encode_runs(runs, machine, bundle, {}))
    found = read_runs(written, 0, machine, bundle, {})
    performed = [placed.command for placed in expand(found, bundle, written)]
    assert performed == [one.command for word in words for one in word]
    assert len(written) <= len(words)
    return found


def test_words_whose_addresses_grow_alike_are_a_loop(machine: Machine, bundle: Bundle) -> None:
    words = alone([c for n in range(9) for c in (load(0, 640 - 64 * n), load(1, 4096 + 3 * n), mac(0, 1, 0))])
    (run,) = read_back(words, machine, bundle)
    assert (run.trips, [word[0].steps for word in run.body]) == (9, [(("a", -64),), (("a", 3),), ()])


def test_an_address_that_grows_otherwise_ends_a_loop(machine: Machine, bundle: Bundle) -> None:
    words = alone([load(0, 64 * n) for n in range(6)] + [load(0, 1000 + 8 * n) for n in range(5)])
    assert [run.trips for run in read_back(words, machine, bundle)] == [6, 5]


def test_steps_that_no_field_holds_make_no_loop(machine: Machine, bundle: Bundle) -> None:
    assert [
        run.trips for run in read_back(alone([load(0, 16384 * n) for n in range(6)]), machine, bundle)
    ] == 6 * [1]
    assert [
        run.trips for run in read_back(alone([load(0, 16383 * n) for n in range(6)]), machine, bundle)
    ] == [6]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_repeats_is_read_back_as_it_was(seed: int, machine: Machine, bundle: Bundle) -> None:
    rng = Random(seed)
    commands: list[Command] = []
    for _ in range(6):
        body = [
            (rng.randrange(3), rng.randrange(0, 4096), rng.randrange(0, 200))
            for _ in range(rng.randint(1, 4))
        ]
        commands += [load(r, at + n * step) for n in range(rng.randint(1, 9)) for r, at, step in body]
    read_back(alone(commands), machine, bundle)


def test_what_has_no_words_has_no_slot(machine: Machine, bundle: Bundle) -> None:
    without = [Command("mac", mac(0, 0, 0).operands)]
    none = Bundle(tuple(slot for slot in bundle.slots if slot.unit != "mac"), bundle.marks, bundle.loop)
    with pytest.raises(UsageProblem) as refused:
        pack(without, machine, none)
    assert refused.value.diagnostics[0].code == "no-encoding"


def time_of(words: list[list[Command]], machine: Machine, bundle: Bundle) -> float:
    """Return when the last of these words is done, by what the description says. Units: ns."""
    placed: list[Numbered] = []
    for at, word in enumerate(words):
        taken: set[int] = set()
        for command in word:
            slots = bundle.slots_of(machine.instructions[command.instruction].cost.unit)
            slot = next(s for s in slots if s not in taken)
            taken.add(slot)
            placed.append(Numbered(at, command, (0,), at, bundle.slots[slot].low))
    clock = Clock(machine)
    clock.perform(placed)
    return clock.last


def test_words_wait_for_what_they_read_and_for_their_slot(machine: Machine, bundle: Bundle) -> None:
    one, other, product = load(0, 0), load(1, 64), mac(0, 1, 0)
    assert time_of([[one]], machine, bundle) == 4
    assert time_of([[one, other], [product]], machine, bundle) == 4 + 4, "loaded at 4"
    assert time_of([[one], [other], [product]], machine, bundle) == 1 + 4 + 4
    assert time_of([[one, other], [product], [product]], machine, bundle) == 4 + 2 * 4, "one sum"
    apart = [[one, other], [mac(0, 1, 0)], [mac(0, 1, 1)], [mac(0, 1, 2)]]
    assert time_of(apart, machine, bundle) == 4 + 2 + 4, "a product in each cycle"
    overwritten = [[one, other], [product, load(0, 128)], [mac(0, 1, 1)]]
    assert time_of(overwritten, machine, bundle) == 4 + 4 + 4, "the second row is loaded beside the product"


def test_a_transfer_goes_on_beside_words_that_do_not_need_it(machine: Machine, bundle: Bundle) -> None:
    places = (("x", Address("dram", 64, (0, 1))), ("z", Address("local", 1024, (64, 1))))
    transfer = Command("dma_in_i8", places, (("R", 1), ("C", 64)))
    done = time_of([[transfer]], machine, bundle)
    assert done == 104
    assert time_of([[transfer], [load(0, 0)], [load(1, 64)]], machine, bundle) == done
    assert time_of([[transfer], [load(0, 1024)]], machine, bundle) == done + 4


def test_a_store_that_waits_for_its_data_does_not_block_loads_on_the_link_of_both() -> None:
    """A fault once let links serve transfers in the order of their words, and idle until a store was ready."""
    machine = load_machine("edge-npu")

    def copy(name: str, **places: int) -> Command:
        own = {"x": "dram", "z": "spad"} if name == "dma_in_i8" else {"x": "spad", "y": "dram"}
        found = tuple((o, Address(own[o], at, (32, 1))) for o, at in places.items())
        return Command(name, found, (("R", 32), ("C", 32)))

    relu = Command(
        "relu_bytes",
        (("x", Address("spad", 0, (32, 1))), ("y", Address("spad", 1024, (32, 1)))),
        (("R", 32),),
    )
    first, store = copy("dma_in_i8", x=64, z=0), copy("dma_out_i8", x=1024, y=8192)
    loads = [copy("dma_in_i8", x=2048 * n, z=4096 * n) for n in (1, 2, 3)]

    def last(*commands: Command) -> float:
        clock = Clock(machine)
        clock.perform([Numbered(at, command, (0,), at) for at, command in enumerate(commands)])
        return clock.last

    stored = 64 + 100 + 32 + 8  # the load has arrived, and the vector unit is done
    assert last(first, relu, store) == stored + 64 + 100
    assert last(first, relu, store, *loads[:2]) == stored + 64 + 100, "both loads cross before it"
    assert last(first, relu, store, *loads) == stored + 2 * 64 + 100, "12 cycles before it are too few"
