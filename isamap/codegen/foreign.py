"""Arrays of other libraries without a copy: tensors of torch, and all that support DLPack.

as_numpy(torch.zeros(4, 3))  ->  an array of numpy in the same memory

Source: https://dmlc.github.io/dlpack/latest/python_spec.html.
"""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from isamap.ir import DTYPES, DType
from isamap.source import Diagnostic, UsageProblem

_CODES = {"int": 0, "uint": 1, "float": 2, "bool": 6}
_BFLOAT = 4
_CPU = 1


def dlpack_code(dtype: DType) -> int:
    """Return what DLPack calls a type beside its bits; -1 for none."""
    if dtype.name == "bf16":
        return _BFLOAT
    return _CODES[dtype.kind] if not dtype.is_float or dtype.bits >= 16 else -1


def capsule_of(value: Any) -> Any:
    """Return what DLPack says of a tensor of torch, in a fraction of a microsecond; None for all else."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if (value.requires_grad and torch.is_grad_enabled()) or value.is_neg():
        return None
    try:
        return torch.utils.dlpack.to_dlpack(value)
    except (RuntimeError, BufferError, TypeError):  # it lies on no device, or in no rows
        return None


def as_numpy(value: object, name: str) -> NDArray[Any] | None:
    """Return an array in the same memory; None for what is no array. Raises: UsageProblem for one out of reach."""
    if not hasattr(value, "__dlpack__") or isinstance(value, np.ndarray):
        return None
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            return _of_torch(value, torch)
        return cast("NDArray[Any]", np.from_dlpack(cast("Any", value)))
    except (RuntimeError, BufferError, TypeError, ValueError) as problem:
        said = f"`{name}` cannot be used where it lies: {problem}"
        raise UsageProblem(
            Diagnostic("argument-mismatch", said, help="pass it as an array of numpy in memory of the CPU")
        ) from None


def _of_torch(value: Any, torch: Any) -> NDArray[Any]:
    found = value if torch.is_grad_enabled() else value.detach()
    if found.dtype == torch.bfloat16:  # numpy has no such type of its own
        if found.requires_grad:
            raise RuntimeError("it requires a gradient: call within torch.no_grad()")
        return cast("NDArray[Any]", found.view(torch.int16).numpy().view(DTYPES["bf16"].numpy()))
    return cast("NDArray[Any]", found.numpy())
