"""Compile whole networks as streams of encoded instructions, simulate and verify them, and print a table.

    python benchmarks/streams.py FOLDER                              all networks on all machines: hours
    python benchmarks/streams.py FOLDER resnet50-224:edge-npu        one of them
    python benchmarks/streams.py FOLDER --table                      the table of what FOLDER has

Each machine gets the quantisation that it can perform: a scale for each channel, one for all weights of a layer,
or scales that are powers of two. Each command's answer is in FOLDER, so a stopped run continues. Needs torch, onnx
and onnxruntime.

The energy column counts the accesses and operations of all instructions of the stream, not those of a schedule,
by the table for 45 nm and 0.9 V in M. Horowitz, "Computing's Energy Problem (and what we can do about it)", ISSCC
2014: integer and float operations, 8 KiB, 32 KiB and 1 MiB of SRAM (10, 20 and 100 pJ for 64 bits) with a power law
between them, and the lower of the two values of DRAM (1.3 nJ for 64 bits). An operation without a row costs as much
as a product of floats. Register files, wires, control and leakage are not counted.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime.quantization as ort
import torch
from onnx import numpy_helper
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch_nets import MODELS, Block

from isamap.ir import Call, Cast, Loop
from isamap.machine import Machine, load_machine
from isamap.stream.command import bound_instruction, integers
from isamap.stream.encoding import decode
from isamap.stream.program_file import read_program
from isamap.stream.tables import contents_of

NETWORKS = ("mobilenetv2-96", "resnet50-64", "resnet50-224", "encoder")
MACHINES = {"edge-npu": "channels", "gemmini": "layers", "vta": "powers"}
"""Which scales a machine requantises by: one for each channel, for each layer, or powers of two."""


DRAM_PJ_PER_BYTE = 1300 / 8
SUMS_PJ = {"i8": 0.03, "u8": 0.03, "i32": 0.1, "f32": 0.9}
PRODUCTS_PJ = {"i8": 0.2, "u8": 0.2, "i32": 3.1, "f32": 3.7}
FREE = ("shl", "shr")
"""Operations that are wires in an array of fixed width."""


def network_of(name: str) -> tuple[Any, Any]:
    """Return a network with random weights, and an input."""
    torch.manual_seed(0)
    if name == "encoder":
        return torch.nn.Sequential(*(Block(256, 4) for _ in range(4))), torch.randn(1, 128, 256)
    kind, size = name.split("-")
    return MODELS[kind]()[0], torch.randn(1, 3, int(size), int(size))


def write_model(name: str, scales: str, folder: Path) -> Path:
    """Write a quantised network, if it does not exist. Return its path."""
    path, plain = folder / f"{name}-{scales}.onnx", folder / f"{name}.onnx"
    if path.exists():
        return path
    model, x = network_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), (x,), str(plain), dynamo=False, opset_version=17)
    ready = folder / f"{name}.ready.onnx"
    quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
    rng, first = np.random.default_rng(0), onnx.load(plain).graph.input[0].name
    samples = iter([{first: rng.standard_normal(tuple(x.shape)).astype(np.float32)} for _ in range(4)])

    class Reader(ort.CalibrationDataReader):
        def get_next(self) -> Any:
            return next(samples, None)

    by_channel, part = scales == "channels", path.with_suffix(".part.onnx")
    ort.quantize_static(
        str(ready), str(part), Reader(),
        quant_format=ort.QuantFormat.QDQ, per_channel=by_channel,
        activation_type=ort.QuantType.QInt8, weight_type=ort.QuantType.QInt8,
        extra_options={"ActivationSymmetric": not by_channel, "WeightSymmetric": True},
    )  # fmt: skip
    if scales == "powers":
        round_scales(part)
    return part.rename(path)


def round_scales(path: Path) -> None:
    """Round all scales of a model up to powers of two, and quantise its weights and biases again."""
    model = onnx.load(path)
    known = {one.name: one for one in model.graph.initializer}
    makers = {result: node for node in model.graph.node for result in node.output}
    scales: dict[str, tuple[Any, Any]] = {}
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") and node.input[1] in known:
            old = numpy_helper.to_array(known[node.input[1]])
            scales[node.input[1]] = (old, np.exp2(np.ceil(np.log2(old))).astype(np.float32))
    biases: dict[str, Any] = {}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in known:
            values, (old, new) = numpy_helper.to_array(known[node.input[0]]), scales[node.input[1]]
            if values.dtype == np.int32:
                biases[node.output[0]] = values.astype(np.float64) * old
                continue
            made = np.clip(np.round(values * (old / new)), -127, 127).astype(values.dtype)
            known[node.input[0]].CopyFrom(numpy_helper.from_array(made, node.input[0]))
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm") and len(node.input) == 3 and node.input[2] in biases:
            given, weights = (scales[makers[name].input[1]][1] for name in node.input[:2])
            bias, new = makers[node.input[2]], (given * weights).astype(np.float32)
            scales[bias.input[1]] = (scales[bias.input[1]][0], new)
            made = np.round(biases[node.input[2]] / new).astype(np.int32)
            known[bias.input[0]].CopyFrom(numpy_helper.from_array(made, bias.input[0]))
    for name, (old, new) in scales.items():
        known[name].CopyFrom(numpy_helper.from_array(new.reshape(old.shape), name))
    onnx.save(model, path)


def answer_of(path: Path) -> Any:
    """Return the answer of a command, or {} if it has not ended."""
    text = path.read_text() if path.exists() else ""
    return json.loads(text) if text.rstrip().endswith("}") else {}


def measure(name: str, machine: str, folder: Path) -> None:
    """Compile, simulate and verify a network on a machine. What the folder has is not done again."""
    model = write_model(name, MACHINES[machine], folder)
    out = folder / f"{name}-{machine}"
    program = ["--program", str(out)]
    for command, words in (
        ("compile", ["--heuristic", "greedy", "--emit", "program", "-o", str(out), "--force"]),
        ("run", program),
        ("verify", program),
    ):
        answer = out.with_suffix(f".{command}.json")
        if answer_of(answer).get("ok"):
            continue
        with answer.open("w") as file:
            asked = [sys.executable, "-m", "isamap", command, str(model), "--hw", machine, *words, "--json"]
            code = subprocess.run(asked, stdout=file, check=False).returncode
        print(f"{name} {machine}: {command} ended with {code}", flush=True)
        if code:
            return


def sram_pj_per_byte(size_bytes: int) -> float:
    """Return the energy of an access to an SRAM: a power law through the table's 32 KiB and 1 MiB."""
    return 20 / 8 * (size_bytes / 32768) ** (math.log(100 / 20) / math.log(32))


def factor_type(e: Any) -> str:
    """Return the type in which a factor arrives: bytes that are widened first are multiplied as bytes."""
    return factor_type(e.value) if isinstance(e, Cast) and e.dtype.is_integer else e.dtype.name


def operation_pj(e: Any) -> float:
    """Return the energy of an expression's operations for one element."""
    if isinstance(e, Cast):
        return operation_pj(e.value)
    if not isinstance(e, Call):
        return 0.0
    own = e.dtype.name
    if e.op == "mul":
        own = max(map(factor_type, e.args), key=lambda t: PRODUCTS_PJ.get(t, 0.0))
        energy = PRODUCTS_PJ.get(own, PRODUCTS_PJ["f32"])
    elif e.op in ("add", "sub", "max", "min", "and", "round"):
        energy = SUMS_PJ.get(own, SUMS_PJ["f32"])
    else:
        energy = 0.0 if e.op in FREE else PRODUCTS_PJ["f32"]
    return energy + sum(map(operation_pj, e.args))


def statements_pj(body: Any, times: int = 1) -> float:
    """Return the energy of all operations of statements that run `times` times."""
    found = 0.0
    for one in body:
        if isinstance(one, Loop):
            found += statements_pj(one.body, times * math.prod(axis.extent.evaluate({}) for axis in one.axes))
        else:
            found += times * (
                operation_pj(one.value) + (SUMS_PJ.get(one.target.dtype.name, 0.9) if one.op else 0.0)
            )
    return found


@functools.cache
def command_pj(name: str, params: tuple[tuple[str, int], ...], machine: Machine) -> tuple[float, float]:
    """Return the energy of an instruction's accesses, and that of its operations."""
    accessed, bound = 0.0, bound_instruction(machine.instructions[name].instruction, params)
    for operand in bound.operands:
        memory = machine.memories[operand.memory] if operand.memory else None
        if memory is not None and memory.kind != "registers":
            is_sram = memory.kind == "scratchpad"
            pj = sram_pj_per_byte(memory.capacity_bytes or 0) if is_sram else DRAM_PJ_PER_BYTE
            size_bytes = math.prod(e.evaluate({}) for e in operand.shape) * operand.dtype.size_bytes
            accessed += (1 + (operand.role == "inout")) * size_bytes * pj
    return accessed, statements_pj(bound.body)


def stream_uj(out: Path, machine: Machine) -> tuple[float, float]:
    """Return the energy of a stream's accesses and operations. Units: microjoules."""
    (path,) = out.glob("*.program")
    program, at, found = read_program(path.read_bytes(), str(path)), 0, [0.0, 0.0]
    tables = contents_of(program.tables)
    for part in program.parts:
        for placed in decode(program.words[at : at + part.words], machine, tables):
            command = placed.command
            numbers = integers(machine.instructions[command.instruction].instruction, command.params)
            for n, pj in enumerate(command_pj(command.instruction, numbers, machine)):
                found[n] += pj
        at += part.words
    return found[0] / 1e6, found[1] / 1e6


def row(name: str, machine: str, folder: Path) -> str | None:
    """Return a row of the table, or None for a network that is not verified yet."""
    out = folder / f"{name}-{machine}"
    ran, judged = (answer_of(out.with_suffix(f".{command}.json")) for command in ("run", "verify"))
    if not ran or not judged:
        return None
    made = json.loads((out / "manifest.json").read_text())
    own = [layer for layer in made["layers"] if layer.get("instructions")]
    others = [layer for layer in made["layers"] if not layer.get("instructions")]
    predicted, host = (sum(layer["predicted_ns"] for layer in some) for some in (own, others))
    simulated = ran["stream"]["total_ns"]
    ratio = made["traffic_bytes"] / sum(made["least_traffic_bytes"].values())
    gap = sum(layer["predicted_ns"] * (layer["gap"] or 0) for layer in own) / predicted
    accessed, computed = stream_uj(out, load_machine(machine))
    right = sum(bool(layer["verified"]) for layer in judged["layers"])
    return (
        f"| {name} | `{machine}` | {made['instructions']:,} | {len(own)}, {len(others)} | {made['traffic_bytes']:,} "
        f"| {ratio:.2f} | {predicted / 1e6:.3g} ms | {simulated / 1e6:.3g} ms | {predicted / simulated - 1:+.1%} "
        f"| {accessed + computed:,.0f}, {computed / (accessed + computed):.0%} | {gap:.0%} | {host / 1e6:.3g} ms "
        f"| {right} of {len(judged['layers'])}, {judged['with_onnx']} by ONNX |"
    )


def main() -> None:
    """Measure the networks that the command line names, and print their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", help="NETWORK:MACHINE, by default all")
    parser.add_argument("--table", action="store_true", help="only print the table")
    asked = parser.parse_args()
    pairs = [tuple(case.split(":")) for case in asked.cases] or [(n, m) for n in NETWORKS for m in MACHINES]
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, machine in () if asked.table else pairs:
        measure(name, machine, asked.folder)
    for name, machine in pairs:
        if (made := row(name, machine, asked.folder)) is not None:
            print(made)


if __name__ == "__main__":
    main()
