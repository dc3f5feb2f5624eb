"""Compile a program to kernels of a device, and one plan of their launches for all of its steps.

    relu_3f2a(x) -> t0      {"kernel": "relu_3f2a_kernel0", "image": "relu_3f2a", "blocks": 8, "lanes": 256,
    gemm_1f(t0, w) -> y      "arguments": [{"array": "x"}, {"array": "#workspace", "offset": 1024}]}, …

Tensors between steps and the buffers of kernels lie in one workspace, which each call allocates on the device.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import accumulate
from typing import Any

import numpy as np

from isamap.driver.side_by_side import all_jobs, done_side_by_side
from isamap.emit.device_call import DeviceProgram
from isamap.emit.lanes import PrintedKernels, print_kernels
from isamap.graph.group_prices import lines
from isamap.graph.host_fallback import make_kernel
from isamap.graph.model_library import ModelOptions, requests_of
from isamap.graph.model_program import KernelCall, ModelProgram, TensorView
from isamap.graph.planning import apart_bytes, plan
from isamap.graph.types import size_bytes
from isamap.machine import load_machine
from isamap.machine.allowed import Device
from isamap.run.toolchain import build_image, find_program
from isamap.source import MissingTool

WORKSPACE = "#workspace"
Plan = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A program of launches on a device of torch. `constants` are tensors on that device, none of them empty."""

    launched: DeviceProgram
    constants: Sequence[Any]

    def call_at(self, given: Sequence[int], made: Sequence[int]) -> None:
        """Launch the steps on torch's current stream, for the addresses of inputs and results in order."""
        known = (tensor.data_ptr() for tensor in self.constants)
        self.launched.launch([*given, *made, *known], self.constants[0])


def check_device(device: Device) -> None:
    """Check that a device's compiler and driver are installed. Raises: MissingTool."""
    find_program(device.compile)
    try:
        ctypes.CDLL(device.driver["library"])
    except OSError as missing:
        help_ = "install the driver, or move the model and its inputs to the processor"
        raise MissingTool.of(
            "platform-lacks-runner", f"the driver of this device cannot be loaded: {missing}", help=help_
        ) from None


def compile_for_device(program: ModelProgram, how: ModelOptions, where: Any) -> DeviceModel:
    """Return a program of kernels, compiled for a device of torch. Raises: IsamapError of every kind."""
    machine, names, printed = load_machine(how.machine), list(program.kernels), dict[str, PrintedKernels]()
    requests = [replace(request, packed=()) for request in requests_of(program, how, runs=True)]
    work = partial(make_kernel, lowered=True)
    for number, one in done_side_by_side(work, requests, all_jobs(), here=True):
        assert one.lowered is not None, "it was asked for"
        printed[names[number]] = print_kernels(one.lowered, machine)
    plans: dict[str, Plan] = {name: json.loads(one.plan) for name, one in printed.items()}
    sizes = {name: [lines(buffer["bytes"]) for buffer in one["buffers"]] for name, one in plans.items()}
    placed = plan(program, {name: sum(own) for name, own in sizes.items()}, {})
    ports = [port.passed.tensor for port in (*program.inputs, *program.outputs)]
    arrays = [*ports, *program.constants, "#first"]

    def place(view: TensorView) -> Plan:
        offset = size_bytes(view.dtype, ()) * view.offset
        if view.tensor in arrays:
            return {"array": view.tensor, "offset": offset}
        return {"array": WORKSPACE, "offset": placed.tensors[view.tensor] + offset}

    launches: list[Plan] = []
    for number, step in enumerate(program.steps):
        assert isinstance(step, KernelCall), "other steps are performed elsewhere"
        views = {**step.reads, **step.writes}
        places = {name: place(view) for name, view in views.items()}
        starts = accumulate(sizes[step.kernel], initial=placed.steps.get(number, 0))
        for buffer, at in zip(plans[step.kernel]["buffers"], starts, strict=False):
            places[buffer["name"]] = {"array": WORKSPACE, "offset": at}
        launches += _bind(plans[step.kernel]["launches"], places, views, step.kernel)
    whole: Plan = next(iter(plans.values()))
    build = partial(build_image, whole["compile"])
    with ThreadPoolExecutor(all_jobs()) as pool:
        files = [f"{name}.{one.ending}" for name, one in printed.items()]
        built = pool.map(build, files, [one.source for one in printed.values()])
        images = dict(zip(printed, map(str, built), strict=True))
    own = {
        "kernel": program.name, "images": images, "arrays": [{"name": name} for name in arrays],
        "scalars": [], "buffers": [{"name": WORKSPACE, "bytes": placed.size_bytes}], "launches": launches,
    }  # fmt: skip
    torch: Any = import_module("torch")
    known = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in program.constants.values())
    constants = [torch.tensor(array, device=where) for array in (*known, np.zeros(1, np.uint8))]
    return DeviceModel(DeviceProgram("", program.name, None, {**whole, **own}), constants)


def _bind(steps: Sequence[Plan], places: Plan, views: Mapping[str, TensorView], image: str) -> list[Plan]:
    """Return the launches of a kernel with the arrays and the strides of one call."""

    def bind(argument: Plan) -> Plan:
        if "stride" not in argument:
            return places[argument["array"]] if "array" in argument else argument
        name, axis = argument["stride"]
        return {"number": apart_bytes(views[name], axis, {}) // size_bytes(views[name].dtype, ())}

    return [
        {**step, "launches": _bind(step["launches"], places, views, image)}
        if "counter" in step
        else {**step, "image": image, "arguments": [bind(argument) for argument in step["arguments"]]}
        for step in steps
    ]
