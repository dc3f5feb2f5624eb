"""Pack weights once: select the operands to pack, and pack again after changes.

A weight is known by where it lies and by torch's count of its changes, `_version`, which every operation in
place raises, but for those on `weight.data` and on arrays of numpy that share its memory. These are noticed
in the contents: each call compares a sample of all weights, and one block in turn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.driver.runnable import CompiledKernel
from isamap.torch.fx_groups import Group
from isamap.torch.fx_nodes import name_of, seen_through
from isamap.torch.kernel_text import Passed, Text
from isamap.torch.recurrent_kernels import RECURRENT

_MATRICES: Mapping[str, tuple[int, ...]] = {
    "mm.default": (1,),
    "addmm.default": (2,),
    **dict.fromkeys(RECURRENT, (3, 4)),
}
"""The arguments of an operation that a kernel may take packed if a single sum reads them."""


def weights_of(graph: Any) -> frozenset[Any]:
    """Return the inputs of a graph that are parameters and buffers: the same tensors in each call."""
    context: Any = import_module("torch._guards").TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    there = metadata.static_input_indices if metadata is not None else ()
    return frozenset(inputs[n] for n in there if n < len(inputs))


def version_of(tensor: Any) -> int:
    """Torch's count of the changes of a tensor, 0 where it keeps none."""
    return 0 if tensor.is_inference() else int(tensor._version)


SAMPLES = 256
"""Words of 8 bytes of all weights together that each call compares, at least one of each weight."""
BLOCK_WORDS = 2048
"""Words of the block that a call compares: all blocks have their turn, one call after the other."""
_FACTORS = np.arange(1, 2 * BLOCK_WORDS, 2, dtype=np.int64) * 0x5851F42D4C957F2D
"""Odd ones, so that no change of a single word leaves a block's sum of products as it was."""


class Contents:
    """The contents of weights when they were packed. They are kept alive, so their addresses stay theirs."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.held = [tensor.detach() for tensor in tensors]
        words = [w for tensor in self.held if (w := _words(tensor)).size]
        self.blocks = [w[at : at + BLOCK_WORDS] for w in words for at in range(0, w.size, BLOCK_WORDS)]
        self.sums = [_sum(block) for block in self.blocks]
        each = max(1, SAMPLES // max(1, len(words)))
        starts = [w.ctypes.data // 8 for w in words]
        first = min(starts, default=0)
        end = max((start + w.size for start, w in zip(starts, words, strict=True)), default=first)
        self.memory = _memory(first, end)
        places = [
            start - first + np.unique(np.linspace(0, w.size - 1, each).astype(np.int64))
            for start, w in zip(starts, words, strict=True)
        ]
        self.places = np.concatenate(places) if places else np.empty(0, np.int64)
        self.sample = self.memory[self.places].tobytes()
        self.turn = 0

    def differ(self) -> bool:
        """Return whether a change is seen; warn of one that earlier calls may have missed."""
        if self.memory[self.places].tobytes() != self.sample:
            return True
        if not self.blocks:
            return False
        turn = self.turn = (self.turn + 1) % len(self.blocks)
        if _sum(self.blocks[turn]) == self.sums[turn]:
            return False
        warnings.warn(
            "a weight was changed through `.data` or shared memory, which torch does not count: up to "
            f"{len(self.blocks)} calls may have used what it held before. Change the weight itself, in "
            "`with torch.no_grad():`",
            stacklevel=2,
        )
        return True


def _words(tensor: Any) -> NDArray[np.int64]:
    """Return the memory from a tensor's first element to its last, in whole words."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    start, end = tensor.data_ptr(), tensor.data_ptr() + reach * tensor.element_size()
    return _memory(-(-start // 8), end // 8 if tensor.numel() and start else 0)


def _memory(first: int, end: int) -> NDArray[np.int64]:
    """Words of memory as an array, which does not keep it alive. Units: words of 8 bytes."""
    if end <= first:
        return np.empty(0, np.int64)
    place = {"data": (8 * first, True), "shape": (end - first,), "typestr": "<i8", "version": 3}
    return np.asarray(type("Memory", (), {"__array_interface__": place})())


def _sum(block: NDArray[np.int64]) -> int:
    return int(np.dot(block, _FACTORS[: block.size]))


def packed_of(group: Group, text: Text, weights: frozenset[Any]) -> tuple[str, ...]:
    """Return the operands of a kernel that are weights of a product."""
    anchor = group.anchor
    if anchor is None or name_of(anchor) not in _MATRICES:
        return ()
    matrices = [anchor.args[n] for n in _MATRICES[name_of(anchor)]]
    return tuple(p.name for p in text.reads if p.node in matrices and seen_through(p.node) in weights)


def packing(kernel: CompiledKernel, passed: Passed, distance: int) -> Callable[[Any, Any], int]:
    """Return the address of a packed weight, of the tensor and of the same tensor as it lies for kernels.

    `distance` is that of the operand from the tensor's first element. Units: elements.
    """
    kept: list[tuple[Contents, int, int, Any]] = []

    def address(tensor: Any, lies: Any) -> int:
        version, start = version_of(tensor), tensor.data_ptr()
        for contents, there, known, array in kept[-1:]:
            if there == start and known == version and not contents.differ():
                return int(array.ctypes.data)
        contents = Contents((tensor,))
        there = lies.detach().as_strided(passed.sizes, passed.strides, lies.storage_offset() + distance)
        (array,) = kernel.pack(**{passed.name: there}).values()
        kept[:] = [
            *kept[-1:],
            (contents, start, version, array),
        ]  # another thread may still read the one before
        return int(array.ctypes.data)

    return address
