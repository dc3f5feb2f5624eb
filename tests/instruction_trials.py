"""Kernels that perform one instruction of a GPU's description each, with arguments and expected results.

    write_trials(load_machine("nvidia-sm80"), Path("FOLDER"))  # trials.cu, trials.json, trials.npz

Each kernel is one block. It fills the registers of its lanes, and the memory of the block, from arrays. This module
lays them out by the description's placements. The kernel performs the instruction and writes everything back. Results
are those of the interpreter. Elements that an instruction does not write have to stay as they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from isamap.emit.c_functions import helper_texts
from isamap.emit.c_names import CNames, storage_type
from isamap.emit.cmodel import InstructionModel
from isamap.emit.lane_functions import build_lane_function, fragment_of
from isamap.ir import Operand, round_to
from isamap.ir.dtypes import DTYPES
from isamap.ir.interpret import interpret
from isamap.machine import Machine, MachineInstruction, private_memories
from isamap.machine.allowed import devices, headers
from isamap.simulate.issue import operand_shapes

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass
class Trial:
    """One instruction with values of its parameters: a kernel, its arrays before it, and behind it."""

    name: str
    instruction: str
    text: str
    before: Arrays
    after: Arrays
    kinds: Mapping[str, str]
    tolerance: float

    def difference(self, found: Mapping[str, Any]) -> str:
        """Return a difference in the arrays that a device wrote, "" if there is none."""
        for array, wanted in self.after.items():
            one, other = (_numbers(np.asarray(a).ravel(), self.kinds[array]) for a in (found[array], wanted))
            bad = ~((np.abs(one - other) <= self.tolerance * (1 + np.abs(other))) | (one == other))
            if bad.any():
                at = int(np.argmax(bad))
                share = f"{int(bad.sum())} of {bad.size} differ"
                return f"{self.name}: {array}[{at}] is {one[at]}, not {other[at]}; {share}"
        return ""


def write_trials(machine: Machine, folder: Path) -> list[Trial]:
    """Write the kernels of all trials, the plan of their launches, and arrays before and behind them."""
    names, helpers, trials = CNames(), set[str](), list[Trial]()
    performed = [item for item in machine.instructions.values() if str(item.emit) == "semantics"]
    for item in performed:
        helpers |= build_lane_function(item, machine, CNames()).used
    shown = helper_texts(helpers - {"string.h", "math.h"})
    for helper in re.findall(r"(\w+)\(", "\n".join(shown)):
        names.take(helper)
    functions: list[str] = []
    for item in machine.instructions.values():
        is_called = str(item.emit) != "semantics"
        model = None if is_called else build_lane_function(item, machine, names)
        if model is not None:
            functions.append(model.text)
        trials += [_trial(item, machine, params, model) for params in _parameters(item)]
    device = [devices()[f] for f in machine.target.features if f in devices()][-1]
    own = [text for header in machine.target.headers if (text := headers()[header].text)]
    lanes = machine.levels[-1].count
    parts = [f"#define LANES {lanes}", device.prelude, *own, *shown, *functions, *(t.text for t in trials)]
    (folder / f"trials.{device.ending}").write_text("\n".join(parts) + "\n", encoding="utf-8")
    arrays = {f"{t.name}.{name}": array for t in trials for name, array in t.before.items()}
    plan = {
        "kernel": "trials", "machine": machine.name, "compile": device.compile, "image": device.image,
        "driver": dict(device.driver), "scalars": [], "buffers": [],
        "arrays": [
            {"name": name, "role": "inout", "dtype": f"i{8 * array.itemsize}", "shape": list(array.shape)}
            for name, array in arrays.items()
        ],
        "launches": [
            {"kernel": t.name, "blocks": 1, "lanes": lanes, "reserved_bytes": 0,
             "arguments": [{"array": f"{t.name}.{n}"} for n in t.before]}
            for t in trials
        ],
    }  # fmt: skip
    (folder / "trials.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
    after = {f"after {t.name}.{name}": array for t in trials for name, array in t.after.items()}
    bounds = {f"tolerance {t.name}": np.asarray(t.tolerance) for t in trials}
    stored: dict[str, Any] = {f"before {name}": array for name, array in arrays.items()} | after | bounds
    np.savez(folder / "trials.npz", **stored)
    return trials


def _numbers(bits: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """Return elements as f64, from their bits."""
    if kind == "bf16":
        return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.view(DTYPES[kind].numpy()).astype(np.float64)


def _parameters(item: MachineInstruction) -> list[dict[str, Any]]:
    """Return values of parameters: the highest ones, and odd ones."""
    full, part = dict[str, Any](), dict[str, Any]()
    for p in item.instruction.params:
        if p.dtype is not None:
            full[p.name] = part[p.name] = 3
            continue
        assert p.high is not None
        most = min(int(p.high.evaluate({})), 96)
        full[p.name], part[p.name] = most, max(1, most - 3 - len(part))
    return [full] if full == part else [full, part]


def _trial(
    item: MachineInstruction, machine: Machine, params: Mapping[str, Any], model: InstructionModel | None
) -> Trial:
    rng = np.random.default_rng(sum(map(ord, item.name)))
    integers = {p.name: params[p.name] for p in item.instruction.params if p.dtype is None}
    scalars = {p.name: float(params[p.name]) for p in item.instruction.params if p.dtype is not None}
    shapes = operand_shapes(item.instruction, tuple(integers.items()))
    values = {o.name: _random(o, shapes[o.name], rng) for o in item.instruction.operands}
    given = {o.name: values[o.name] for o in item.instruction.operands if o.role != "out"}
    results = interpret(item.instruction, given, integers, scalars)
    name = "_".join((item.name, "trial", *map(str, params.values())))
    places: dict[str, _Place] = {}
    before, after = Arrays(), Arrays()
    for o in item.instruction.operands:
        place = places[o.name] = _Place(o, item, machine, shapes[o.name])
        noise = _random(o, (place.size,), rng)
        before[o.name] = place.laid(noise, values[o.name] if o.role != "out" else None)
        after[o.name] = place.laid(noise, results[o.name] if o.role != "in" else values[o.name])
    text = _kernel(name, item, machine, params, places, model)
    kinds = {o.name: o.dtype.name for o in item.instruction.operands}
    tolerance = 2e-5 if all(DTYPES[kind].is_float for kind in kinds.values()) else 0
    return Trial(name, item.name, text, before, after, kinds, tolerance)


def _random(o: Operand, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    values = rng.integers(-9, 10, shape) if not o.dtype.is_float else rng.uniform(0.2, 2, shape)
    found = np.asarray(values)
    return (round_to(found, o.dtype) if o.dtype.is_float else found).astype(o.dtype.numpy())


class _Place:
    """Where the elements of an operand lie in its array: by lane and place in registers, by strides in memory."""

    def __init__(
        self, o: Operand, item: MachineInstruction, machine: Machine, shape: tuple[int, ...]
    ) -> None:
        self.strides: tuple[int, ...] = ()
        self.kind = machine.memories[o.memory or ""].kind
        self.memory, self.dtype, self.shape = o.memory, o.dtype, shape
        points = list(np.ndindex(*shape))
        lanes = machine.levels[-1].count or 1
        if self.kind == "registers":
            fragment = fragment_of(o, item, machine)
            self.each = 1 if fragment is None else fragment.elements
            self.size = lanes * self.each
            self.at: dict[tuple[int, ...], list[int]] = {}
            for point in points:
                if fragment is None:
                    self.at[point] = list(range(lanes))
                    continue
                named = dict(zip(fragment.indices, point, strict=True))
                lane, place = fragment.lane.evaluate(named), fragment.place.evaluate(named)
                self.at[point] = [n * self.each + place for n in range(lane, lanes, fragment.lanes)]
            return
        stated = [None if s is None else s.value for s in o.strides] if o.strides is not None else None
        self.strides = tuple(int(prod(shape[axis + 1 :])) for axis in range(len(shape)))
        if stated is not None:
            room = -(-max(shape, default=1) // 8) * 8 + 8
            free = (2, room * 2 + 1) if len(stated) > 1 and 1 not in stated else (room, room)
            order = list(reversed(range(len(stated))))
            self.strides = tuple(
                s or free[order.index(axis)] if len(stated) > 1 else s or 3 for axis, s in enumerate(stated)
            )
        self.at = {p: [sum(i * s for i, s in zip(p, self.strides, strict=True))] for p in points}
        self.size = 1 + max((place[0] for place in self.at.values()), default=0) + 5

    def laid(self, noise: np.ndarray[Any, Any], values: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
        """Return the bits of the array, with noise where no element lies."""
        array = noise.copy()
        if values is not None:
            for point, places in self.at.items():
                array[places] = values[point]
        return array.view(
            {1: np.int8, 2: np.uint16, 4: np.int32 if not self.dtype.is_float else np.float32}[array.itemsize]
        )


def _kernel(
    name: str,
    item: MachineInstruction,
    machine: Machine,
    params: Mapping[str, Any],
    places: Mapping[str, _Place],
    model: InstructionModel | None,
) -> str:
    own = private_memories(machine)
    declared, lines, behind = list[str](), list[str](), list[str]()
    handles: dict[str, str] = {}
    for operand, place in places.items():
        kind = storage_type(place.dtype)
        declared.append(f"__global {kind} *{operand}_g")
        handles[operand] = f"{operand}_g"
        if place.kind == "registers":
            handles[operand] = f"{operand}_r"
            lines += [
                f"  {kind} {operand}_r[{place.each}];",
                f"  for (int e = 0; e < {place.each}; e++) {operand}_r[e] = {operand}_g[lane * {place.each} + e];",
            ]
            behind.append(
                f"  for (int e = 0; e < {place.each}; e++) {operand}_g[lane * {place.each} + e] = {operand}_r[e];"
            )
        elif place.memory in own:
            handles[operand] = f"{operand}_s"
            lines.insert(0, f"  OWN_OF_BLOCK({kind}, {operand}_s, {place.size});")
            step = f"for (int64_t at = lane; at < {place.size}; at += LANES)"
            lines.append(f"  {step} {operand}_s[at] = {operand}_g[at];")
            behind.append(f"  {step} {operand}_g[at] = {operand}_s[at];")
    at = next((n for n, line in enumerate(lines) if "OWN_OF_BLOCK" not in line), len(lines))
    lines.insert(at, "  const int64_t lane = LANE;")
    if model is not None:
        in_registers = any(place.kind == "registers" for place in places.values())
        given = ["lane"] if in_registers else ["lane", "LANES"]
        for m in model.operands:
            place = places[m.operand.name]
            given.append(handles[m.operand.name])
            strides: list[int] = list(place.strides)
            given += [str(strides[axis]) for axis in m.stride_axes]
        given += [str(params[p.name]) for p in model.params]
        call = f"{model.name}({', '.join(given)});"
    else:
        call = str(item.emit) + ";"
        for operand, place in places.items():
            row = (place.strides[0] if place.strides else 0) * place.dtype.size_bytes
            call = re.sub(rf"\b{operand}\.(ref|addr)\b", handles[operand], call).replace(
                f"{operand}.stride", str(row)
            )
        for param, value in params.items():
            call = re.sub(rf"(?<=[ (]){param}(?=[,)])", str(value), call)
    listed = ", ".join(declared)
    return "\n".join(
        (f"__kernel void {name}({listed}) {{", *lines, "  BARRIER;", f"  {call}", "  BARRIER;", *behind, "}")
    )
