"""Contenders that pack weights before the timing, by each library's own functions.

torch packs with oneDNN (`_reorder_linear_weight`) and gives its result as a new tensor: nothing has it
written in place, so that making that tensor is part of each call. MKL packs with `cblas_…_pack`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.bench.product_cases import GemmCase
from isamap.bench.ring import Mapped
from isamap.bench.timed_loops import TimedProduct
from isamap.run.arguments import make_call
from isamap.run.runner import Packer
from isamap.run.worker import private_memory

PACKED = 2
"""`transpose_b` of a product in loops.h whose B is packed."""

_ROW_MAJOR, _NO_TRANSPOSE, _TRANSPOSE, _B_MATRIX = 101, 111, 112, 162

MKL: dict[str, tuple[str, str, str]] = {
    "f32": ("time_scompute", "cblas_sgemm_compute", "cblas_sgemm_pack"),
    "bf16_f32": ("time_bf16gemm", "cblas_gemm_bf16bf16f32_compute", "cblas_gemm_bf16bf16f32_pack"),
    "u8s8": ("time_u8gemm", "cblas_gemm_s8u8s32_compute", "cblas_gemm_s8u8s32_pack"),
}
"""Per form the timed loop, the function that computes with a packed B, and the one that packs."""


class PackedMemory:
    """Page-aligned memory of this process for packed operands. Units: bytes."""

    def __init__(self, size: int) -> None:
        self._map = private_memory(max(size, 1), large_pages=True)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))


def pack_for_mkl(library: Any, name: str, mapped: Mapped[GemmCase]) -> list[PackedMemory]:
    """Return B, packed by MKL's own function once for each copy of the ring."""
    case = mapped.task.case
    sizes = [ctypes.c_int(n) for n in (case.n, case.m, case.k)]
    count: Any = library[f"{name}_get_size"]
    count.restype = ctypes.c_size_t
    pack: Any = library[name]
    factor = (ctypes.c_float(1.0),) if name == "cblas_sgemm_pack" else ()
    found: list[PackedMemory] = []
    for address in mapped.addresses("B"):
        memory = PackedMemory(count(_B_MATRIX, *sizes))
        how = _TRANSPOSE if case.a_transposed else _NO_TRANSPOSE
        pitch = ctypes.c_int(mapped.arrays["B"][0].shape[1])
        source, target = ctypes.c_void_p(address), ctypes.c_void_p(memory.address)
        pack(_ROW_MAJOR, _B_MATRIX, how, *sizes, *factor, source, pitch, target)
        found.append(memory)
    return found


def with_packed(product: TimedProduct, packed: list[PackedMemory]) -> Any:
    """Replace B of a product by packed copies. Return the objects that must outlive the product."""
    addresses = (ctypes.c_void_p * len(packed))(*(memory.address for memory in packed))
    product.b, product.transpose_b = ctypes.addressof(addresses), PACKED
    return (addresses, packed)


def packs_of(
    packers: Sequence[Packer], arrays: dict[str, NDArray[Any]]
) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    """Return as plain data how emitted code packs these arrays, and the arrays for the results.

    A packed array is removed from `arrays`.
    """
    packs: list[dict[str, Any]] = []
    found: dict[str, NDArray[Any]] = {}
    for packer in packers:
        source, target = packer.source, packer.target
        empty = np.empty(tuple(int(n.value or 0) for n in target.shape), target.dtype.numpy())
        call = make_call(
            packer.compiled.interface, {source: arrays.pop(source), target.name: empty}, {}, {}, True
        )
        packs.append(
            {
                "library": str(packer.compiled.library),
                "function": packer.compiled.interface.name,
                "fields": call.fields,
                "source": source,
                "target": target.name,
                "bytes": empty.nbytes,
            }
        )
        found[target.name] = empty
    return packs, found


def pack_for_program(packs: list[Mapping[str, Any]], mapped: Mapped[Any], at: int) -> dict[str, PackedMemory]:
    """Return the operands that emitted code takes packed, packed by emitted code, for one copy of the ring."""
    from isamap.run.worker import load_function, make_arguments

    found: dict[str, PackedMemory] = {}
    for pack in packs:
        memory = PackedMemory(pack["bytes"])
        function, workspace_bytes = load_function(pack["library"], pack["function"])
        arguments = make_arguments(pack["fields"], [mapped.addresses(pack["source"])[at], memory.address])
        pointer = ctypes.addressof(arguments)
        workspace = ctypes.create_string_buffer(max(workspace_bytes(pointer), 1))
        status = function(pointer, workspace, None)
        assert status == 0, f"{pack['function']} gives {status}"
        found[pack["target"]] = memory
    return found


def packed_torch_call(
    torch: Any, mapped: Mapped[GemmCase], tensors: Mapping[str, list[Any]]
) -> Callable[[int], Any]:
    """Return a call of the product with weights packed by oneDNN. B is the transposed weight."""
    reorder, linear = torch.ops.mkldnn._reorder_linear_weight, torch.ops.mkldnn._linear_pointwise
    a, weights = tensors["A"], [reorder(b.t(), mapped.task.case.n) for b in tensors["B"]]
    return lambda at: linear(a[at], weights[at], None, "none", [], "")
