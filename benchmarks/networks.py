"""Networks by torch and by ONNX, in f32, bf16 and int8, compared with four other programs: times, ratios, errors.

    python benchmarks/networks.py networks.jsonl                      measure, then write networks.md
    python benchmarks/networks.py networks.jsonl --threads 2          the same by two threads, by the clock
    python benchmarks/networks.py networks.jsonl --only mlp block --types int8

MobileNetV2, ResNet-50, a block of a transformer, an MLP, a GRU and an LSTM; where `--only` names them, also those of
`torch_architectures.py`, such as vit, unet and convnext. Contenders of a case take turns in one process: eager torch,
inductor with freezing, onnxruntime, OpenVINO, and isamap by `torch.compile` and from the file of ONNX. One thread is
timed by the processor time of the process, several by the clock. int8 is what onnxruntime's `quantize_static` makes
of the file and, where `torchao` is installed, PT2E of the model of torch. bf16 is the model in bf16, and OpenVINO's
own choice of it. Each result is compared with eager torch's, in int8 with that of the same quantised graph. A case
that was measured is a line of the file, and is not measured again.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

Call = Callable[[], Any]
NETWORKS = ("mobilenetv2", "resnet50", "block", "mlp", "gru", "gru16", "lstm", "lstm16")
ARCHITECTURES = ("vit", "llama", "unet", "convnext", "mamba", "experts", "dlrm", "wav2vec", "vocoder")
OTHERS = ("eager", "inductor", "onnxruntime", "openvino")
OWN = ("isamap torch", "isamap onnx")
ALLOWED = {"f32": 1e-3, "bf16": 0.08, "int8": 0.08}
"""The largest difference to the reference, as a share of the largest number: in int8 a few steps."""
LEAST = {"f32": 0.95, "bf16": 1.0, "int8": 0.9}
"""The ratio below which a row falls short."""
TURN_S, MOST_CALLS = 0.03, 10


def _exported(model: Any, inputs: Sequence[Any], path: Path) -> Path:
    torch: Any = import_module("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, tuple(inputs), str(path), dynamo=False, opset_version=17)
    return path


def _with_named_types(path: Path) -> Path:
    """Return a file in bf16 with the type of its casts: torch 2.13 writes complex128 for a number with bf16."""
    onnx: Any = import_module("onnx")
    model = onnx.load(path)
    for node in model.graph.node:
        for said in node.attribute:
            if node.op_type == "Cast" and said.i == onnx.TensorProto.COMPLEX128:
                said.i = onnx.TensorProto.BFLOAT16
    onnx.save(model, path)
    return path


def _quantised_file(path: Path, inputs: Mapping[str, Any]) -> Path:
    """Return a file that onnxruntime's tool quantises statically, as its documentation says for this processor."""
    quantization: Any = import_module("onnxruntime.quantization")
    shapes: Any = import_module("onnxruntime.quantization.shape_inference")
    rng = np.random.default_rng(0)

    def another(x: Any) -> Any:
        return rng.standard_normal(x.shape).astype(np.float32) if x.dtype == np.float32 else x

    given = iter([{name: another(x) for name, x in inputs.items()} for _ in range(4)])

    class Reader(quantization.CalibrationDataReader):
        def get_next(self) -> Any:
            return next(given, None)

    ready, made = path.with_suffix(".ready.onnx"), path.with_suffix(".int8.onnx")
    shapes.quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
    kinds = {"activation_type": quantization.QuantType.QUInt8, "weight_type": quantization.QuantType.QInt8}
    quantization.quantize_static(
        str(ready), str(made), Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True, **kinds
    )
    return made


def _quantised_model(model: Any, inputs: Sequence[Any]) -> Any:
    """Return a model that PT2E quantises statically for x86."""
    torch, steps, x86, pt2e = (
        import_module(name)
        for name in (
            "torch", "torchao.quantization.pt2e.quantize_pt2e",
            "torchao.quantization.pt2e.quantizer.x86_inductor_quantizer", "torchao.quantization.pt2e",
        )
    )  # fmt: skip
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = steps.prepare_pt2e(torch.export.export(model, tuple(inputs)).module(), quantizer)
    for _ in range(4):
        prepared(*(torch.randn_like(x) if x.is_floating_point() else x for x in inputs))
    made = steps.convert_pt2e(prepared)
    pt2e.move_exported_model_to_eval(made)
    return made


def _onnxruntime(path: Path, inputs: Mapping[str, Any], threads: int, *, plain: bool = False) -> Call:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if plain:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(inputs))[0]


def _openvino(path: Path, inputs: Mapping[str, Any], threads: int, precision: str) -> Call:
    core = import_module("openvino").Core()
    facts = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": precision}
    request = core.compile_model(core.read_model(str(path)), "CPU", facts).create_infer_request()
    return lambda: np.asarray(next(iter(request.infer(dict(inputs), share_inputs=True).values())))


def _isamap(path: Path, inputs: Mapping[str, Any], threads: int) -> Call:
    model = import_module("isamap.onnx").compile_model(path, "host", threads=threads)
    given = dict(zip(model.inputs, inputs.values(), strict=True))
    return lambda: next(iter(model(given).values()))


def _contenders(
    name: str, kind: str, threads: int, folder: Path
) -> dict[str, tuple[Callable[[], Call], Call]]:
    """Return by contender a function that prepares its call, and the call that it is compared with."""
    torch, nets = import_module("torch"), import_module("torch_nets")
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    torch._dynamo.config.allow_rnn = True
    models = {**nets.MODELS, **import_module("torch_architectures").ARCHITECTURES}
    model, inputs = models[name]()
    model = model.eval()
    path = _exported(model, inputs, folder / f"{name}.onnx")
    ports = [port.name for port in import_module("onnx").load(path).graph.input]
    arrays = {port: x.numpy() for port, x in zip(ports, inputs, strict=True)}
    model_of_torch: Any = model

    def by_torch(backend: str) -> Call:
        if model_of_torch is None:
            raise ImportError("torchao is not installed")
        own = {
            "options": {"pack": True, "threads": threads},
            "backend": import_module("isamap.torch").backend,
        }
        how = {"eager": None, "inductor": {"options": {"freezing": True}}, "isamap": own}[backend]
        call = model_of_torch if how is None else torch.compile(model_of_torch, **how)
        return lambda: call(*inputs)

    eager: Call = lambda: model_of_torch(*inputs)  # noqa: E731 - the reference of most
    files, judge, precision = path, eager, "f32"
    if kind == "bf16":
        model_of_torch, wide = model.to(torch.bfloat16), inputs
        inputs = [x.to(torch.bfloat16) if x.is_floating_point() else x for x in wide]
        precision = "bf16"
        files = _with_named_types(_exported(model_of_torch, inputs, folder / f"{name}.bf16.onnx"))
    if kind == "int8":
        files = _quantised_file(path, arrays)
        judge = _onnxruntime(files, arrays, threads, plain=True)
        model_of_torch = _quantised_model(model, inputs) if find_spec("torchao") else None
    own = arrays
    if kind == "bf16":
        narrow = import_module("ml_dtypes").bfloat16
        own = {p: x.astype(narrow) if x.dtype == np.float32 else x for p, x in arrays.items()}
    found: dict[str, tuple[Callable[[], Call], Call]] = {
        "eager": (lambda: by_torch("eager"), eager),
        "inductor": (lambda: by_torch("inductor"), eager),
        "onnxruntime": (lambda: _onnxruntime(files, arrays, threads), judge),
        "openvino": (lambda: _openvino(files if kind == "int8" else path, arrays, threads, precision), judge),
        "isamap torch": (lambda: by_torch("isamap"), eager),
        "isamap onnx": (lambda: _isamap(files, own, threads), judge),
    }
    if kind == "bf16":
        del found["onnxruntime"]  # it has few kernels of bf16
    return found


def _array(value: Any) -> Any:
    """Return the first result as an array in f64."""
    while isinstance(value, list | tuple):
        value = value[0]
    return np.asarray(value.detach().double() if hasattr(value, "detach") else value).astype(np.float64)


def measure(name: str, kind: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return the times of each contender in ms, its largest error, and the reasons of those that are missing."""
    clock = time.process_time if given.threads == 1 else time.perf_counter
    calls: dict[str, Call] = {}
    errors: dict[str, float] = {}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, import_module("torch").no_grad():
        for contender, (prepare, judge) in _contenders(name, kind, given.threads, Path(folder)).items():
            if contender in given.without:
                continue
            try:
                calls[contender] = prepare()
                found, expected = _array(calls[contender]()), _array(judge())
                apart = np.abs(found.reshape(-1) - expected.reshape(-1)).max() / np.abs(expected).max()
                errors[contender] = float(apart)
            except Exception as error:  # noqa: BLE001 - a program raises what it likes
                calls.pop(contender, None)
                missing[contender] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
            print(f"  {contender}: {errors.get(contender, missing.get(contender))}", flush=True)
        times: dict[str, list[float]] = {contender: [] for contender in calls}
        for _ in range(given.rounds):
            for contender in random.sample(sorted(calls), len(calls)):
                started = time.perf_counter()
                calls[contender]()  # brings back what others took from the caches
                count = max(1, min(MOST_CALLS, int(TURN_S / (time.perf_counter() - started))))
                for _ in range(count):
                    start = clock()
                    calls[contender]()
                    times[contender].append((clock() - start) * 1e3)
    return {"times": times, "errors": errors, "missing": missing}


# --- the table ---


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of what was measured, its means, and the rows that fall short."""
    lines = [
        "Least and median times in ms. Ratios are of the fastest other program's over isamap's.", "",
        f"| network | type | threads | {' | '.join((*OTHERS, *OWN))} | by torch | by ONNX |",
        f"|{'---|' * (5 + len(OTHERS + OWN))}",
    ]  # fmt: skip
    means: dict[tuple[str, int, str], list[tuple[float, float]]] = {}
    short: list[str] = []
    for row in rows:
        times, errors, allowed = row["times"], row["errors"], ALLOWED[row["type"]]
        right = {c: t for c, t in times.items() if errors[c] <= allowed}
        cells = [f"{min(t):.3f}, {median(t):.3f}" if (t := times.get(c)) else "–" for c in (*OTHERS, *OWN)]
        best = [min((f(t) for c, t in right.items() if c in OTHERS), default=0.0) for f in (min, median)]
        case = f"{row['network']}, {row['type']}, {row['threads']} threads"
        for own in OWN:
            if own not in right:
                said = row["missing"].get(own, f"wrong by {errors[own]:.2g}" if own in errors else "left out")
                cells.append("–")
                short.append(f"- {case}, {own}: {said}")
                continue
            ratios = best[0] / min(right[own]), best[1] / median(right[own])
            cells.append(f"{ratios[0]:.2f}, {ratios[1]:.2f}")
            means.setdefault((row["type"], row["threads"], own), []).append(ratios)
            if ratios[0] < LEAST[row["type"]]:
                short.append(f"- {case}, {own}: {ratios[0]:.2f}, where {LEAST[row['type']]} is wanted")
        lines.append(f"| {row['network']} | {row['type']} | {row['threads']} | {' | '.join(cells)} |")
    lines += ["", "Geometric means, by least times and by medians:", ""]
    for (kind, threads, own), found in means.items():
        least, middle = (geometric_mean(ratios) for ratios in zip(*found, strict=True))
        lines.append(
            f"- {kind}, {threads} threads, {own}: {least:.2f}, {middle:.2f} of {len(found)} networks"
        )
    return "\n".join([*lines, "", "Short of what is wanted:", "", *(short or ["- none"])]) + "\n"


def main() -> None:
    """Measure what is not in the file yet, each case in a process of its own, and write the table."""
    parser = argparse.ArgumentParser(
        description="Networks by torch and by ONNX, compared with four other programs."
    )
    parser.add_argument(
        "store", type=Path, help="a file of lines of JSON; the table is written to the same folder"
    )
    parser.add_argument(
        "--only", nargs="+", default=NETWORKS, choices=(*NETWORKS, *ARCHITECTURES), metavar="NETWORK"
    )
    parser.add_argument("--types", nargs="+", default=list(ALLOWED), choices=list(ALLOWED))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--without", nargs="+", default=[], choices=(*OTHERS, *OWN), metavar="CONTENDER")
    parser.add_argument("--minutes", type=float, default=20, help="the most that a case may take")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    for kind in given.types:
        for name in given.only if kind != "int8" else [n for n in given.only if n not in NETWORKS[4:]]:
            lines = given.store.read_text(encoding="utf-8").splitlines() if given.store.exists() else []
            rows = [json.loads(line) for line in lines]
            case = {"network": name, "type": kind, "threads": given.threads}
            if any(row.items() >= case.items() for row in rows):
                continue
            print(f"{name}, {kind}, {given.threads} threads", flush=True)
            if given.inside:
                row = {**case, **measure(name, kind, given)}
                with given.store.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps(row)}\n")
                return
            words = [sys.executable, __file__, str(given.store), "--inside", "--only", name, "--types", kind]
            words += ["--threads", str(given.threads), "--rounds", str(given.rounds)]
            words += ["--without", *given.without] if given.without else []
            try:
                subprocess.run(words, timeout=60 * given.minutes, check=False)
            except subprocess.TimeoutExpired:
                print(f"  not done after {given.minutes:g} minutes", flush=True)
    if given.store.exists() and not given.inside:
        rows = [json.loads(line) for line in given.store.read_text(encoding="utf-8").splitlines()]
        given.store.with_suffix(".md").write_text(report(rows), encoding="utf-8")
        print(given.store.with_suffix(".md"))


if __name__ == "__main__":
    main()
