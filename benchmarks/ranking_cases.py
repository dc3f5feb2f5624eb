"""The products that `ranking.py` ranks schedules of: a kernel at some sizes, out of public suites."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from isamap.driver.inputs import find_profile
from isamap.driver.request import Request
from isamap.kernels import kernel_path
from isamap.source import Source
from isamap.suites.shapes import BatchedProduct, read_suite
from isamap.tune.profile import parse_profile

KERNELS = ("gemm_f32", "gemm_bf16", "gemm_u8s8")
SHAPES = 22
MOST_MACS, LEAST_MACS = 400_000_000, 2_000_000  # between about 0.1 and 10 ms


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel at some sizes."""

    kernel: str
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.m}x{self.n}x{self.k}"

    @property
    def sizes(self) -> dict[str, int]:
        return {"M": self.m, "N": self.n, "K": self.k}

    def request(self, machine: str, profile: str) -> Request:
        """Return the question with the greedy heuristic, on a machine with the figures of a profile.

        A file may have been measured on any processor, with any version of the description.
        """
        path = kernel_path(self.kernel)
        source = Source(path.name, path.read_text())
        file = Path(profile)
        is_file = file.suffix == ".json"
        found = (
            parse_profile(Source(profile, file.read_text())) if is_file else find_profile(profile, machine)
        )
        return Request(source, machine, self.sizes, heuristic="greedy", profile=found)

    @staticmethod
    def named(name: str) -> Case:
        """Return the case that a store calls so."""
        kernel, _, sizes = name.partition(" ")
        return Case(kernel, *map(int, sizes.split("x")))


def cases(held_out: bool = False) -> list[Case]:
    """Products of DeepBench and of transformers that take a few milliseconds, spread over their sizes.

    `held_out` are others, in the middle between those: nothing was chosen by looking at them.
    """
    found: dict[tuple[int, int, int], int] = {}
    for suite in ("deepbench-gemm", "transformer-gemm", "resnet50-conv"):
        for shape in read_suite(suite):
            if isinstance(shape, BatchedProduct):
                m, n, k = shape.m, shape.n, shape.k
            elif shape.r == shape.s == shape.stride_h == 1:  # a product of pixels and channels
                m, n, k = shape.n * shape.p * shape.q, shape.k, shape.c
            else:
                continue
            if LEAST_MACS <= m * n * k <= MOST_MACS:
                found[m, n, k] = m * n * k
    ordered = sorted(found, key=lambda key: (found[key], key))
    usual = [i * (len(ordered) - 1) // (SHAPES - 1) for i in range(SHAPES)]
    between = [(low + high) // 2 for low, high in pairwise(usual)]
    chosen = [ordered[i] for i in (between if held_out else usual)]
    return [Case(kernel, *sizes) for sizes in chosen for kernel in KERNELS]
