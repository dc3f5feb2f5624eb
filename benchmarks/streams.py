"""Compile whole networks as streams of encoded instructions, simulate and verify them, and print a table.

    python benchmarks/streams.py FOLDER                              all networks on all machines: hours
    python benchmarks/streams.py FOLDER resnet50-224:edge-npu        one of them
    python benchmarks/streams.py FOLDER --table                      the table of what FOLDER has

Each machine gets the quantisation that it can perform: a scale for each channel, one for all weights of a layer,
or scales that are powers of two. Each command's answer is in FOLDER, so a stopped run continues. Needs torch, onnx
and onnxruntime.
"""

from __future__ import annotations

import argparse
import json
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

NETWORKS = ("mobilenetv2-96", "resnet50-64", "resnet50-224", "encoder")
MACHINES = {"edge-npu": "channels", "gemmini": "layers", "vta": "powers"}
"""Which scales a machine requantises by: one for each channel, for each layer, or powers of two."""


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
    right = sum(bool(layer["verified"]) for layer in judged["layers"])
    return (
        f"| {name} | `{machine}` | {made['instructions']:,} | {len(own)}, {len(others)} | {made['traffic_bytes']:,} "
        f"| {ratio:.2f} | {predicted / 1e6:.3g} ms | {simulated / 1e6:.3g} ms | {predicted / simulated - 1:+.1%} "
        f"| {gap:.0%} | {host / 1e6:.3g} ms | {right} of {len(judged['layers'])}, {judged['with_onnx']} by ONNX |"
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
