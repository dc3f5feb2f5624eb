"""What torch's tests give to models."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
F: Any = torch.nn.functional

Case = tuple[Callable[[Any], Any], Callable[[], Any]]
"""What is computed, and what makes its input."""


def randn(*sizes: int) -> Any:
    return torch.randn(*sizes)


def ramp(*sizes: int, dtype: Any = torch.float32) -> Any:
    """Numbers around zero."""
    count = torch.Size(sizes).numel()
    return (torch.arange(count, dtype=dtype) - count // 2).reshape(sizes)
