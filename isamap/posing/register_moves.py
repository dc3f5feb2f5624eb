"""What it takes to bring tiles from their scratchpad into registers, and sums back, by unit.

A DSP whose products read and write registers, with sums of 128 x 128 x 128 in tiles of 64, each of which it
loads by `load` and stores by `store`:

    whole sums       loaded once, stored once: `around`; neither where registers begin with 0 and pass them on
    a part of them   what is summed so far goes out and comes back before the next one: `between`

Units work side by side, so that each is priced by itself (`isamap.scheduler.effects.flowing`).
"""

from __future__ import annotations

from isamap.machine import cost_params, cost_value
from isamap.match import (
    Location,
    OperandTile,
    Suppliers,
    Supply,
    Tile,
    find_delivery,
    homes_of,
    in_tiles,
    steps_of,
)
from isamap.plan.problem import Busy
from isamap.posing.supplied import unit_ns
from isamap.source import added


def loaded(operand: OperandTile, tile: Tile, home: str, tiles: int, suppliers: Suppliers) -> Busy:
    """How long loads of so many tiles of an operand keep units busy that do not compute."""
    return _by_unit(_load(operand, tile, home, suppliers), tile, tiles, suppliers)


def stored(acc: OperandTile, tile: Tile, home: str, tiles: int, suppliers: Suppliers) -> Busy:
    """How long stores of so many tiles of sums keep units busy that do not compute."""
    if isinstance(_load(acc, tile, home, suppliers), Location):
        return ()  # the instruction itself adds to what lies there
    return _by_unit(_store(acc, tile, home, suppliers), tile, tiles, suppliers)


def latency_ns(acc: OperandTile, tile: Tile, home: str, suppliers: Suppliers) -> float:
    """How long a tile of sums takes from registers into its scratchpad and back."""
    machine, ways = suppliers.machine, (_load(acc, tile, home, suppliers), _store(acc, tile, home, suppliers))
    steps = (step for way in ways if isinstance(way, Supply) for step in steps_of(way))
    found = (machine.instructions[step.instruction] for step in steps)
    return added(cost_value(i.cost.latency_ns, cost_params(i, machine, {})) for i in found)


def _load(operand: OperandTile, tile: Tile, home: str, suppliers: Suppliers) -> Supply | Location | None:
    found = homes_of(tile, operand, suppliers).get(home)
    return found if isinstance(found, Supply | Location) else None


def _store(acc: OperandTile, tile: Tile, home: str, suppliers: Suppliers) -> Supply | None:
    cell = in_tiles(acc, suppliers, home)
    return find_delivery(suppliers, cell, acc.held, acc.memory, acc.dtype, acc.want({}))


def _by_unit(found: Supply | Location | None, tile: Tile, tiles: int, suppliers: Suppliers) -> Busy:
    machine = suppliers.machine
    own = machine.instructions[tile.mapping.instruction].cost.unit
    each = ((unit, tiles * unit_ns(found, unit, suppliers)) for unit in machine.units if unit != own)
    return tuple((unit, ns) for unit, ns in each if ns)
