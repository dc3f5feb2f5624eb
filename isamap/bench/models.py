"""Run a whole model by isamap and by installed runtimes in alternation, each as its users would call it.

time_model(path, model, inputs, constants, threads=1, budget_s=4.0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from isamap.bench.paired_timing import Ratio, play, ratio
from isamap.graph.graph import Array
from isamap.graph.model_library import CompiledModel
from isamap.source.records import dataclass

Call = Callable[[], list[Array]]
"""One call of a model on prepared inputs: its results in their order."""


@dataclass(frozen=True, slots=True)
class TimedRuntime:
    """A timed runtime. Units: seconds. `apart` is the largest relative difference from isamap's results.

    It is relative to the largest result. `ratio` is the time of this runtime over isamap's.
    """

    name: str
    version: str
    seconds: tuple[float, ...]
    apart: float
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class Missing:
    """A runtime that is not timed, and why."""

    name: str
    why: str
    is_installed: bool


@dataclass(frozen=True, slots=True)
class _Contender:
    """A contender for `play`."""

    name: str
    call: Call

    def time(self, calls: int, first: int = 0) -> int:
        """Return the nanoseconds of a number of calls."""
        start = perf_counter_ns()
        for _ in range(calls):
            self.call()
        return perf_counter_ns() - start


class _Inputs:
    """The inputs that all contenders read and none changes."""

    ring = 1

    def refill(self) -> None:
        """Do nothing. No contender changes the inputs."""


def _onnxruntime(path: Path, inputs: Mapping[str, Array], threads: int) -> Call:
    """Return a call of onnxruntime whose threads sleep between calls, as those of other contenders do."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = dict(inputs)
    return lambda: session.run(None, given)


def _openvino(path: Path, inputs: Mapping[str, Array], threads: int) -> Call:
    """Return a call of OpenVINO for these sizes, in the types of the model."""
    vino: Any = import_module("openvino")
    core = vino.Core()
    model = core.read_model(str(path))
    model.reshape({port: list(inputs[port.get_any_name()].shape) for port in model.inputs})
    facts: dict[str, Any] = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
    if not any(array.dtype.itemsize == 2 for array in inputs.values()):
        facts["INFERENCE_PRECISION_HINT"] = "f32"  # else f32 is computed in bf16 on processors that have it
    compiled = core.compile_model(model, "CPU", facts)
    request, given = compiled.create_infer_request(), dict(inputs)
    return lambda: [np.asarray(found) for found in request.infer(given, share_inputs=True).values()]


RUNTIMES: Mapping[str, Callable[[Path, Mapping[str, Array], int], Call]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}


def time_model(
    path: Path,
    model: CompiledModel,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    threads: int,
    budget_s: float,
) -> tuple[tuple[float, ...], list[TimedRuntime | Missing]]:
    """Return the times of isamap by round, and the runtimes, timed in alternation. Units: seconds."""
    ours = _Contender("isamap", lambda: list(model(inputs).values()))
    results = ours.call()
    present: dict[str, tuple[_Contender, str, float]] = {}
    missing: list[TimedRuntime | Missing] = []
    for name, prepare in RUNTIMES.items():
        try:
            said = version(name)
        except PackageNotFoundError:
            missing.append(Missing(name, "it is not installed", False))
            continue
        try:
            call = prepare(path, {**constants, **inputs}, threads)
            apart = max(map(_relative_difference, results, call()), default=0.0)
        except Exception as error:  # noqa: BLE001 - a runtime raises what it likes about models that it lacks
            missing.append(Missing(name, str(error).strip().splitlines()[0][:160], True))
            continue
        present[name] = _Contender(name, call), said, apart
    rounds = play([ours, *(one for one, _, _ in present.values())], budget_s, _Inputs())
    timed: list[TimedRuntime | Missing] = [
        TimedRuntime(name, said, rounds[name], apart, ratio(rounds["isamap"], rounds[name]))
        for name, (_, said, apart) in present.items()
    ]
    return rounds["isamap"], timed + missing


def _relative_difference(ours: Array, theirs: Array) -> float:
    """Return the largest difference of two results, divided by the largest number."""
    own, other = np.asarray(ours, np.float64), np.asarray(theirs, np.float64).reshape(ours.shape)
    largest = float(np.abs(other[np.isfinite(other)]).max(initial=0.0))
    return float(np.abs(own - other).max(initial=0.0)) / (largest or 1.0)
