"""Call kernels that isamap printed for a device, on torch tensors in the device's memory.

    product = DeviceProgram("FOLDER", "gemm_bf16_f32")
    product(a, b, c)  # tensors in the order of the kernel's arrays; c is written

`isamap compile --emit kernels` writes this file, the kernels, and NAME.json, which is the plan of their launches.
The command in the plan compiles the kernels. ctypes calls the driver. Only Python, torch and the driver are needed.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import finalize

_TORCH_NAMES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8",
    "i16": "int16", "i32": "int32", "i64": "int64", "bool": "bool",
}  # fmt: skip
_SCALARS: Mapping[str, Any] = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "i8": ctypes.c_int8, "u8": ctypes.c_uint8,
    "i32": ctypes.c_int32, "i64": ctypes.c_int64,
}  # fmt: skip


class DeviceProgram:
    """The kernels of a program, loaded at the first call for each device, into the context that torch uses there.

    `library` replaces the library of the driver that the plan names, and `plan` the file of the plan. Any thread may
    call it. The images are unloaded with the program, so keep it as long as a CUDA graph that recorded its calls.
    """

    def __init__(
        self, folder: str | Path, name: str, library: Any = None, plan: dict[str, Any] | None = None
    ) -> None:
        path = Path(folder) / f"{name}.json"
        self.plan: dict[str, Any] = plan or json.loads(path.read_text(encoding="utf-8"))
        images: dict[str, str] = self.plan.get("images", {name: f"{name}.{self.plan['image']}"})
        self._images = {own: Path(folder) / file for own, file in images.items()}
        self._library = library
        self._loaded: dict[int, tuple[ctypes.c_void_p, dict[str, ctypes.c_void_p]]] = {}
        self._prepared: tuple[Any, list[tuple[Any, ...]], list[Any]] | None = None
        self._checked: tuple[Any, ...] | None = None

    def __call__(self, *tensors: Any, stream: int | None = None, **scalars: float) -> None:
        """Launch the program's kernels on a stream of the device, by default torch's current one.

        Raises: ValueError for tensors or scalars that the plan does not take, RuntimeError if the driver refuses.
        """
        given = (*((t.data_ptr(), t.dtype, tuple(t.shape), t.is_contiguous()) for t in tensors), *scalars)
        if given != self._checked:
            self._check(tensors, scalars)
            self._checked = given
        self.launch([t.data_ptr() for t in tensors], tensors[0], stream, **scalars)

    def launch(self, places: Sequence[int], like: Any, stream: int | None = None, **scalars: float) -> None:
        """Launch the kernels on arrays at these addresses. Buffers are allocated where the tensor `like` lies."""
        of_torch: Any = import_module("torch").get_device_module(like.device)
        with of_torch.device(like.device):
            if stream is None:
                current = of_torch.current_stream(like.device)
                self._launch(places, like, getattr(current, f"{like.device.type}_stream"), scalars)
            else:
                with of_torch.stream(of_torch.ExternalStream(stream, device=like.device)):
                    self._launch(places, like, stream, scalars)

    def _launch(self, places: Sequence[int], like: Any, stream: int, scalars: Mapping[str, float]) -> None:
        kernels = self._enter(like.device.index or 0)
        # The allocator reuses these buffers in the order of the stream that is torch's current one here.
        size = like.element_size()
        buffers = [like.new_empty(max(1, -(-buffer["bytes"] // size))) for buffer in self.plan["buffers"]]
        places = (*places, *(buffer.data_ptr() for buffer in buffers))
        key = (like.device.index, *places, *sorted(scalars.items()))
        prepared = self._prepared
        if prepared is None or prepared[0] != key:
            prepared = self._prepared = (key, *self._prepare(kernels, places, scalars))
        for kernel, blocks, lanes, size, given in prepared[1]:
            self._driver(
                "launch", kernel, blocks, 1, 1, lanes, 1, 1, size, ctypes.c_void_p(stream), given, None
            )

    def _check(self, tensors: tuple[Any, ...], scalars: Mapping[str, float]) -> None:
        arrays = self.plan["arrays"]
        if len(tensors) != len(arrays):
            raise ValueError(f"{self.plan['kernel']} takes {len(arrays)} tensors, not {len(tensors)}")
        for array, tensor in zip(arrays, tensors, strict=True):
            said = str(tensor.dtype).removeprefix("torch."), list(tensor.shape)
            wanted = _TORCH_NAMES[array["dtype"]], array["shape"]
            if said != wanted or not tensor.is_contiguous():
                raise ValueError(f"`{array['name']}` is {said}: it has to be {wanted}, contiguous")
        names = {scalar["name"] for scalar in self.plan["scalars"]}
        if names != set(scalars):
            raise ValueError(f"give the scalars {sorted(names)} by name, not {sorted(scalars)}")

    def _enter(self, number: int) -> dict[str, ctypes.c_void_p]:
        """Make a device's context the current one of this thread, and return the kernels there, loaded once."""
        if number not in self._loaded:
            if self._library is None:
                self._library = ctypes.CDLL(self.plan["driver"]["library"])
            context, device = ctypes.c_void_p(), ctypes.c_int()
            if "retain" in self.plan["driver"]:
                self._driver("begin", 0)
                self._driver("device", ctypes.byref(device), number)
                self._driver("retain", ctypes.byref(context), device)
            modules: dict[str, ctypes.c_void_p] = {}
            finalize(self, _unload, self._library, self.plan["driver"], context, device, modules)
            if context:
                self._driver("enter", context)
            self._loaded[number] = context, self._load(modules)
        context, kernels = self._loaded[number]
        if context:
            self._driver("enter", context)
        return kernels

    def _load(self, modules: dict[str, ctypes.c_void_p]) -> dict[str, ctypes.c_void_p]:
        """Load the images into the current context, and return their kernels."""
        kernels: dict[str, ctypes.c_void_p] = {}
        for launch, _ in launches_of(self.plan["launches"]):
            name, image = launch["kernel"], launch.get("image", next(iter(self._images)))
            if image not in modules:
                module = ctypes.c_void_p()
                self._driver("load", ctypes.byref(module), self._images[image].read_bytes())
                modules[image] = module
            if name not in kernels:
                kernels[name] = ctypes.c_void_p()
                self._driver("find", ctypes.byref(kernels[name]), modules[image], name.encode())
                if size := launch["reserved_bytes"]:
                    self._permit(kernels[name], size)
        return kernels

    def _permit(self, kernel: ctypes.c_void_p, size: int) -> None:
        try:
            self._driver("permit", kernel, self.plan["permitted"], size)
        except RuntimeError as error:
            said = f"{error}: a block takes {size} bytes of shared memory, which the device may not have"
            raise RuntimeError(f"{said}; name a description that states the device's bytes") from None

    def _prepare(
        self, kernels: Mapping[str, Any], addresses: Sequence[int], scalars: Mapping[str, float]
    ) -> tuple[list[tuple[Any, ...]], list[Any]]:
        """Return each launch with its packed arguments, and the values that these point to."""
        names = [own["name"] for own in (*self.plan["arrays"], *self.plan["buffers"])]
        places = dict(zip(names, addresses, strict=True))
        kinds = {scalar["name"]: scalar["dtype"] for scalar in self.plan["scalars"]}
        launches: list[tuple[Any, ...]] = []
        kept: list[Any] = []
        for launch, counters in launches_of(self.plan["launches"]):
            values: list[Any] = []
            for argument in launch["arguments"]:
                if "array" in argument:
                    values.append(ctypes.c_void_p(places[argument["array"]] + argument.get("offset", 0)))
                elif "scalar" in argument:
                    name = argument["scalar"]
                    values.append(_SCALARS[kinds[name]](scalars[name]))
                else:
                    number = argument["number"] if "number" in argument else counters[argument["counter"]]
                    values.append(ctypes.c_int64(number))
            given = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(value) for value in values))
            kept.append(values)
            kernel = kernels[launch["kernel"]]
            launches.append((kernel, launch["blocks"], launch["lanes"], launch["reserved_bytes"], given))
        return launches, kept

    def _driver(self, step: str, *given: Any) -> None:
        name = self.plan["driver"][step]
        if status := self._library[name](*given):
            raise RuntimeError(f"{name} of {self.plan['driver']['library']} ended with {status}")


def _unload(
    library: Any, driver: Mapping[str, str], context: Any, device: Any, modules: Mapping[str, Any]
) -> None:
    """Unload images when the launches of their context have ended, and release the context.

    Any thread may do this, and its own current context stays the current one.
    """
    if context:
        library[driver["push"]](context)
        library[driver["wait"]]()
    for module in modules.values():
        library[driver["unload"]](module)
    if context:
        library[driver["pop"]](ctypes.byref(ctypes.c_void_p()))
        library[driver["release"]](device)


def launches_of(
    steps: list[dict[str, Any]], counters: Mapping[str, int] | None = None
) -> Iterator[tuple[dict[str, Any], Mapping[str, int]]]:
    """Yield the launches of a plan in order, each with the counters of the loops around it."""
    counters = counters or {}
    for step in steps:
        if "counter" in step:
            for number in range(step["trips"]):
                yield from launches_of(step["launches"], {**counters, step["counter"]: number})
        else:
            yield step, counters
