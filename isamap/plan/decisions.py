"""The names of decisions, which problems, cost models, solvers and `--fix` use.

`nest0.block.n` is how many elements of axis n one cache block covers, in nest 0.
"""

from __future__ import annotations

from isamap.source.records import dataclass

# Bytes of a buffer that a copy writes one after the other, before the next pieces of the same rows: tiles of fewer
# are copied a few rows at a time. Measured on Ice Lake, at the loops of `lower/staging.py`.
WRITTEN_BYTES = 512


def mapping_of(statement: int) -> str:
    """Return the name of the decision about the option of a statement, by its number in the problem."""
    return f"nest{statement}.mapping"


def unroll_of(statement: int, axis: str) -> str:
    """Return the name of the decision by how many issues, or innermost iterations of a sum, an axis is unrolled."""
    return f"nest{statement}.unroll.{axis}"


def block_of(statement: int, axis: str) -> str:
    """Return the name of the decision about the elements of an axis in one cache block."""
    return f"nest{statement}.block.{axis}"


def order_of(statement: int, outer: str, inner: str) -> str:
    """Return the name of the decision that is 1 if the cache-block loop of `outer` is outside that of `inner`."""
    return f"nest{statement}.order.{outer}.{inner}"


def sweep_of(statement: int, outer: str, inner: str) -> str:
    """Return the name of the decision that is 1 if the register-block loop of `outer` is outside that of `inner`."""
    return f"nest{statement}.sweep.{outer}.{inner}"


def parallel_of(statement: int, axis: str) -> str:
    """Return the name of the decision into how many parts for threads an axis is divided (1: not divided)."""
    return f"nest{statement}.parallel.{axis}"


def fuse_of(statement: int, other: int) -> str:
    """Return the name of the decision that is 1 if a statement fuses another, elementwise one."""
    return f"nest{statement}.fuse.{other}"


def stage_of(statement: int, operand: str) -> str:
    """Return the name of the decision about staging: 0 in place, 1 per block (as deep as possible), 2 as a whole."""
    return f"nest{statement}.stage.{operand}"


def ahead_of(statement: int, operand: str) -> str:
    """Return the name of the decision that is 1 if a buffer is filled one iteration early, and so has two copies.

    Slices of the copy are interleaved with the next inner loop; with 2, with the loop over the sum. Lanes fill a
    buffer that they share so many iterations early, up to 4.
    """
    return f"nest{statement}.ahead.{operand}"


def spread_of(statement: int, operand: str) -> str:
    """Return the name of the decision that is 1 if a staged result is written back during the next iteration."""
    return f"nest{statement}.spread.{operand}"


def rows_of(statement: int, operand: str) -> str:
    """Return the name of the decision that is 1 if copies follow the rows of the array (0: the buffer's order)."""
    return f"nest{statement}.rows.{operand}"


def prefetch_of(statement: int, operand: str) -> str:
    """Return the name of the decision about the cache into which an operand's lines are prefetched (0: none)."""
    return f"nest{statement}.prefetch.{operand}"


@dataclass(frozen=True, slots=True)
class DecisionDomain:
    """The values of decisions of one kind, for any mapping. `high` is None without an upper limit."""

    low: int
    high: int | None
    meaning: str

    def __contains__(self, value: int) -> bool:
        return self.low <= value and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.high is None:
            return f"a whole number of at least {self.low}"
        *values, last = map(str, range(self.low, self.high + 1))
        return f"{', '.join(values)} or {last}"


DOMAINS: dict[str, DecisionDomain] = {
    "unroll": DecisionDomain(1, None, "1 is not unrolled"),
    "block": DecisionDomain(1, None, "a block at least as large as the axis is not a block"),
    "order": DecisionDomain(0, 1, "1 puts the first axis outside, 0 the second one"),
    "sweep": DecisionDomain(0, 1, "1 puts the first axis outside, 0 the second one"),
    "parallel": DecisionDomain(1, None, "1 is not parallel"),
    "fuse": DecisionDomain(0, 1, "1 fuses the statement, 0 does not"),
    "stage": DecisionDomain(0, 2, "0 is read in place, 1 staged per block, 2 staged as a whole"),
    "ahead": DecisionDomain(
        0,
        4,
        "1 fills the buffer one iteration early, 2 interleaves that with the sum, 0 fills it when it is needed; "
        "lanes fill it so many iterations early",
    ),
    "spread": DecisionDomain(0, 1, "1 writes the result back during the next iteration, 0 at once"),
    "rows": DecisionDomain(0, 1, "1 copies row after row of the array, 0 in the order of the buffer"),
    "prefetch": DecisionDomain(0, None, "0 means no prefetch"),
}
"""The domains by kind, the word after the statement. The numbers of mappings depend on the problem."""


def domain_of(name: str) -> DecisionDomain | None:
    """Return the possible values of a decision by its kind, or None for an unknown kind."""
    return DOMAINS.get(name.split(".")[1])
