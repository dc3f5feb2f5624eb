"""Call kernels that isamap printed for a device, on torch tensors in the device's memory.

    product = DeviceProgram("FOLDER", "gemm_bf16_f32")
    product(a, b, c)  # tensors in the order of the kernel's arrays; c is written

`isamap compile --emit kernels` writes this file, the kernels, and NAME.json, which is the plan of their launches.
The command in the plan compiles the kernels. ctypes calls the driver. Only Python, torch and the driver are needed.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

_TORCH_NAMES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8",
    "i16": "int16", "i32": "int32", "i64": "int64", "bool": "bool",
}  # fmt: skip
_SCALARS: Mapping[str, Any] = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "i8": ctypes.c_int8, "u8": ctypes.c_uint8,
    "i32": ctypes.c_int32, "i64": ctypes.c_int64,
}  # fmt: skip


class DeviceProgram:
    """The kernels of one program, loaded into the context that is current at the first call.

    `library` replaces the library of the driver that the plan names.
    """

    def __init__(self, folder: str | Path, name: str, library: Any = None) -> None:
        self.plan: dict[str, Any] = json.loads((Path(folder) / f"{name}.json").read_text(encoding="utf-8"))
        self._image = Path(folder) / f"{name}.{self.plan['image']}"
        self._library = library
        self._kernels: dict[str, ctypes.c_void_p] = {}
        self._buffers: dict[str, Any] = {}
        self._launches: list[tuple[Any, ...]] = []
        self._key: tuple[Any, ...] | None = None
        self._given: list[Any] = []

    def __call__(self, *tensors: Any, stream: int | None = None, **scalars: float) -> None:
        """Launch the program's kernels on a stream of the device, by default torch's current one.

        Raises: ValueError for tensors or scalars that the plan does not take, RuntimeError if the driver refuses.
        """
        if stream is None:
            torch: Any = import_module("torch")
            stream = torch.cuda.current_stream(tensors[0].device).cuda_stream
        key = (*(t.data_ptr() for t in tensors), *sorted(scalars.items()))
        if key != self._key:
            self._check(tensors, scalars)
            if not self._kernels:
                self._load(tensors[0])
            self._prepare(tensors, scalars)
            self._key = key
        for kernel, blocks, lanes, given in self._launches:
            self._driver("launch", kernel, blocks, 1, 1, lanes, 1, 1, 0, ctypes.c_void_p(stream), given, None)

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

    def _load(self, tensor: Any) -> None:
        """Load the image, find its kernels, and allocate the program's buffers on the tensor's device."""
        if self._library is None:
            self._library = ctypes.CDLL(self.plan["driver"]["library"])
        module = ctypes.c_void_p()
        self._driver("load", ctypes.byref(module), self._image.read_bytes())
        for name in dict.fromkeys(launch["kernel"] for launch, _ in launches_of(self.plan["launches"])):
            kernel = ctypes.c_void_p()
            self._driver("find", ctypes.byref(kernel), module, name.encode())
            self._kernels[name] = kernel
        for buffer in self.plan["buffers"]:
            self._buffers[buffer["name"]] = tensor.new_empty(
                -(-buffer["bytes"] // tensor.element_size()) + 16
            )

    def _prepare(self, tensors: tuple[Any, ...], scalars: Mapping[str, float]) -> None:
        """Pack the arguments of each launch."""
        places = {a["name"]: t.data_ptr() for a, t in zip(self.plan["arrays"], tensors, strict=True)}
        places |= {name: buffer.data_ptr() for name, buffer in self._buffers.items()}
        kinds = {scalar["name"]: scalar["dtype"] for scalar in self.plan["scalars"]}
        self._launches, self._given = [], []
        for launch, counters in launches_of(self.plan["launches"]):
            values: list[Any] = []
            for argument in launch["arguments"]:
                if "array" in argument:
                    values.append(ctypes.c_void_p(places[argument["array"]]))
                elif "scalar" in argument:
                    name = argument["scalar"]
                    values.append(_SCALARS[kinds[name]](scalars[name]))
                else:
                    number = argument["number"] if "number" in argument else counters[argument["counter"]]
                    values.append(ctypes.c_int64(number))
            given = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(value) for value in values))
            self._given.append(values)  # the driver reads them through `given`
            self._launches.append((self._kernels[launch["kernel"]], launch["blocks"], launch["lanes"], given))

    def _driver(self, step: str, *given: Any) -> None:
        name = self.plan["driver"][step]
        if status := self._library[name](*given):
            raise RuntimeError(f"{name} of {self.plan['driver']['library']} ended with {status}")


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
