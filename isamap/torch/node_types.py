"""The types of torch, and known properties of its nodes' results."""

from __future__ import annotations

from typing import Any

TYPES = {
    "torch.float32": "f32",
    "torch.float64": "f64",
    "torch.bfloat16": "bf16",
    "torch.int64": "i64",
    "torch.int32": "i32",
    "torch.int16": "i16",
    "torch.int8": "i8",
    "torch.uint8": "u8",
    "torch.bool": "bool",
}
"""Types of torch that kernels compute with, and what they are called here."""


def first_of(node: Any) -> Any:
    """Return the known facts about the result of a node, or about the first of several that are there."""
    value: Any = node.meta["val"]
    return next(v for v in value if v is not None) if type(value) in (tuple, list) else value
