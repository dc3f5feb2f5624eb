"""Weights that are packed once: which operands of a kernel are, and when they are packed again.

A weight is known by where it lies and by torch's count of its changes, `_version`, which every operation in
place raises, but for those on `weight.data`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from isamap.driver.runnable import CompiledKernel
from isamap.torch.graph import name_of, seen_through
from isamap.torch.groups import Group
from isamap.torch.kernel_text import Passed, Text
from isamap.torch.recurrent import RECURRENT

_MATRICES: Mapping[str, tuple[int, ...]] = {
    "mm.default": (1,),
    "addmm.default": (2,),
    **dict.fromkeys(RECURRENT, (3, 4)),
}
"""Which arguments of an operation, which one sum reads, a kernel may take packed."""


def weights_of(graph: Any) -> frozenset[Any]:
    """The inputs of a graph that are parameters and buffers: the same tensors in each call."""
    context: Any = import_module("torch._guards").TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    there = metadata.static_input_indices if metadata is not None else ()
    return frozenset(inputs[n] for n in there if n < len(inputs))


def version_of(tensor: Any) -> int:
    """Torch's count of the changes of a tensor, 0 where it keeps none."""
    return 0 if tensor.is_inference() else int(tensor._version)


def packed_of(group: Group, text: Text, weights: frozenset[Any]) -> tuple[str, ...]:
    """The operands of a kernel that are weights of a product."""
    anchor = group.anchor
    if anchor is None or name_of(anchor) not in _MATRICES:
        return ()
    matrices = [anchor.args[n] for n in _MATRICES[name_of(anchor)]]
    return tuple(p.name for p in text.reads if p.node in matrices and seen_through(p.node) in weights)


def packing(kernel: CompiledKernel, passed: Passed, distance: int) -> Callable[[Any, Any], int]:
    """The address of a packed weight, of the tensor and of the same tensor as it lies for kernels.

    `distance` is that of the operand from the tensor's first element. Units: elements.
    """
    kept: list[tuple[Any, int, Any]] = []  # the tensor is held: nothing else gets its address

    def address(tensor: Any, lies: Any) -> int:
        version = version_of(tensor)
        for held, known, array in kept[-1:]:
            if held.data_ptr() == tensor.data_ptr() and known == version:
                return int(array.ctypes.data)
        there = lies.detach().as_strided(passed.sizes, passed.strides, lies.storage_offset() + distance)
        (array,) = kernel.pack(**{passed.name: there}).values()
        kept[:] = [*kept[-1:], (tensor, version, array)]  # another thread may still read the one before
        return int(array.ctypes.data)

    return address
