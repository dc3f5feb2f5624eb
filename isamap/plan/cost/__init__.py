"""Modelled costs: the expressions, and their evaluation for assignments."""

from isamap.plan.cost.algebra import (
    Add,
    Cases,
    CeilDiv,
    Const,
    Cost,
    Decision,
    Max,
    Mul,
    Number,
    OverBlocks,
    Threshold,
    decisions_in,
    is_whole,
    largest,
    parts_of,
    times,
    total,
)
from isamap.plan.cost.number import Assignment, block_classes, evaluate

__all__ = [
    "Add", "Assignment", "Cases", "CeilDiv", "Const", "Cost", "Decision", "Max", "Mul", "Number",
    "OverBlocks", "Threshold", "block_classes", "decisions_in", "evaluate", "is_whole", "largest", "parts_of",
    "times", "total",
]  # fmt: skip
