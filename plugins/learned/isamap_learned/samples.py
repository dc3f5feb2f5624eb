"""The kernels and sizes of samples for learned cost models: `samples.csv`, one in each line."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("samples.csv")
PROCESSOR_TIME = "processor-time"
"""The name of measurements of samples, which other work on the same processor does not lengthen."""


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A kernel, as it is named to commands, at some sizes."""

    kernel: str
    sizes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return " ".join([self.kernel, *(f"{name}={value}" for name, value in self.sizes)])

    def has(self, sizes: Mapping[str, object]) -> bool:
        """Return whether a kernel has these sizes; it may have further sizes."""
        return all(sizes.get(name) == value for name, value in self.sizes)


def read_sample_rows() -> tuple[SampleRow, ...]:
    """Return all rows in the order of visits, with alternating families."""
    with _FILE.open(newline="") as file:
        return tuple(_row(line["kernel"], line["sizes"]) for line in csv.DictReader(file))


def _row(kernel: str, sizes: str) -> SampleRow:
    pairs = (word.partition("=") for word in sizes.split())
    return SampleRow(kernel, tuple((name, int(value)) for name, _, value in pairs))
