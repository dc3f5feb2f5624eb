"""Models of torch by eager torch, inductor, onnxruntime, OpenVINO and isamap, in alternation: medians and ratios.

    python benchmarks/torch_models.py [MODEL …] [--bf16] [--threads 2] [--pack] [--json FILE]
    python benchmarks/torch_models.py vit llama unet convnext mamba experts dlrm wav2vec vocoder --pack

Contenders take turns in another order each round; each call of a turn is timed by itself. What compiles
takes its time before that, and is printed. Results are compared with those of torch. onnxruntime, OpenVINO
and `isamap-onnx` compute models that torch exports, and none in bf16, for which onnxruntime has few kernels.
With `portfolio`, torch performs what it is faster at. Recurrent layers reach compilers as
`torch._dynamo.config.allow_rnn` asks.

With `--json` each contender of a model is a line of a file as soon as the model is measured, an object with
its `first_call_seconds`, in which it compiles. Lines that are there stay: a run that was ended has lost none.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from torch_architectures import ARCHITECTURES
from torch_nets import MODELS as NETS
from torch_nets import SIX

import isamap.onnx
import isamap.torch

torch: Any = import_module("torch")

MODELS = {**NETS, **ARCHITECTURES}
OWN = ("isamap", "isamap-onnx", "portfolio")
EXPORTED = ("onnxruntime", "openvino", "isamap-onnx")
CONTENDERS = ("eager", "inductor", *EXPORTED[:2], *OWN)
TURN_S = 0.02
MOST_CALLS = 10
"""Of a turn: fewer where a call takes longer than a share of the turn."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A contender of a model. Units: `times` of calls in microseconds, the first call in seconds."""

    times: list[float]
    first_call_s: float
    error: float


def first_of(found: Any) -> Any:
    """Return the first result of a model that has several."""
    return found if isinstance(found, torch.Tensor) else first_of(found[0])


def _exported(name: str, model: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a call by a contender that reads files of ONNX, of the model as torch exports it."""
    arrays = [x.numpy() for x in inputs]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of exporting recurrent layers for one batch size, which is meant
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(model, tuple(inputs), path, dynamo=False, opset_version=17)
        match name:
            case "openvino":
                core: Any = import_module("openvino").Core()
                one = {"NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
                ready = core.compile_model(path, "CPU", {**one, "INFERENCE_NUM_THREADS": options["threads"]})
                request = ready.create_infer_request()
                return lambda *_: torch.from_numpy(
                    request.infer(arrays, share_inputs=True, share_outputs=True)[0]
                )
            case "onnxruntime":
                runtime: Any = import_module("onnxruntime")
                asked = runtime.SessionOptions()
                asked.intra_op_num_threads, asked.inter_op_num_threads = options["threads"], 1
                session = runtime.InferenceSession(path, asked, providers=["CPUExecutionProvider"])
                given = {port.name: x for port, x in zip(session.get_inputs(), arrays, strict=False)}
                return lambda *_: torch.from_numpy(session.run(None, given)[0])
            case _:
                how = {name: options[name] for name in ("machine", "heuristic", "threads")}
                ours = isamap.onnx.compile_model(path, **how)
                named = dict(zip(ours.inputs, arrays, strict=False))
                return lambda *_: torch.from_numpy(next(iter(ours(named).values())))


def _made(name: str, model: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    match name:
        case "eager":
            return model
        case "inductor":
            return torch.compile(model, options={"freezing": True})
        case _ if name in EXPORTED:
            return _exported(name, model, inputs, options)
        case _:
            asked = {**options, "portfolio": name == "portfolio"}
            return torch.compile(model, backend=isamap.torch.backend, options=asked)


def _turn(call: Callable[[], Any], clock: Callable[[], float], calls: int) -> list[float]:
    """Return each call by itself, after one that brings back what others took from the caches."""
    call()
    found: list[float] = []
    for _ in range(calls):
        start = clock()
        call()
        found.append((clock() - start) * 1e6)
    return found


def measure(
    name: str, dtype: Any, given: argparse.Namespace, options: Mapping[str, Any], clock: Callable[[], float]
) -> dict[str, Timed]:
    """Return what each contender took; compilations and errors are printed."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs = MODELS[name]()
    model, inputs = model.eval().to(dtype), [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    calls: dict[str, Callable[[], Any]] = {}
    timed: dict[str, Timed] = {}
    expected = first_of(model(*inputs))
    scale = expected.abs().max().item()
    for contender in given.contenders:
        if contender in EXPORTED and dtype is not torch.float32:
            continue
        start = time.perf_counter()
        found = _made(contender, model, inputs, options)
        error = (first_of(found(*inputs)) - expected).abs().max().item() / scale
        calls[contender] = lambda found=found: found(*inputs)
        spent = time.perf_counter() - start
        timed[contender] = Timed([], spent, error)
        print(f"  {contender}: first call {spent:.1f} s, largest difference to eager {error:.2g}", flush=True)
    start = time.perf_counter()
    calls["eager"]()
    count = max(1, min(MOST_CALLS, int(TURN_S / (time.perf_counter() - start))))
    for _ in range(given.rounds):
        for contender in random.sample(sorted(calls), len(calls)):
            timed[contender].times.extend(_turn(calls[contender], clock, count))
    return timed


def _rows(
    model: str, dtype: Any, given: argparse.Namespace, timed: Mapping[str, Timed]
) -> list[dict[str, Any]]:
    """Return a row for each contender."""
    asked = {"threads": given.threads, "pack": given.pack, "heuristic": given.heuristic}
    return [
        {
            "model": model, "dtype": str(dtype).removeprefix("torch."), **asked, "machine": given.machine,
            "contender": contender, "clock": "processor" if given.processor_time else "wall",
            "calls": len(one.times), "median_us": round(median(one.times), 2),
            "least_us": round(min(one.times), 2),
            "first_call_seconds": round(one.first_call_s, 2), "error": one.error,
        }
        for contender, one in timed.items()
    ]  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Models of torch by several compilers, in alternation.")
    parser.add_argument("models", nargs="*", default=list(SIX), metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--machine", default="host")
    parser.add_argument("--heuristic", default="greedy")
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="a line for each contender, added to a file"
    )
    parser.add_argument(
        "--processor-time", action="store_true", help="beside other programs: of this process"
    )
    asked = parser.parse_args()
    if asked.processor_time and asked.threads > 1:
        parser.error("the processor time of one thread says nothing of several")
    return asked


def main() -> None:
    """Print what each model took, and how much faster than the fastest other one it is."""
    asked = _arguments()
    clock = time.process_time if asked.processor_time else time.perf_counter
    torch.set_num_threads(asked.threads)
    torch._dynamo.config.allow_rnn = True
    dtype = torch.bfloat16 if asked.bf16 else torch.float32
    options = {name: getattr(asked, name) for name in ("machine", "heuristic", "pack", "threads")}
    ratios: dict[str, list[float]] = {own: [] for own in OWN if own in asked.contenders}
    with torch.no_grad():
        for name in asked.models:
            print(f"{name}, {dtype}", flush=True)
            timed = measure(name, dtype, asked, options, clock)
            if asked.json:
                with asked.json.open("a", encoding="utf-8") as file:
                    file.writelines(f"{json.dumps(row)}\n" for row in _rows(name, dtype, asked, timed))
            times = {contender: one.times for contender, one in timed.items()}
            for contender, found in times.items():
                print(f"  {contender:11} median {median(found):9.1f} µs, least {min(found):9.1f} µs")
            fastest = min(median(found) for other, found in times.items() if other not in OWN)
            for own, found in ratios.items():
                if own not in times:
                    continue
                found.append(fastest / median(times[own]))
                least = min(min(found) for other, found in times.items() if other not in OWN) / min(
                    times[own]
                )
                print(f"  the fastest of the others over {own}: {found[-1]:.2f}, by least times {least:.2f}")
    for own, found in ((own, found) for own, found in ratios.items() if found):
        print(f"geometric mean of {own}: {geometric_mean(found):.2f}")


if __name__ == "__main__":
    main()
