"""The shapes of a suite, typed, all row-major: `read_suite("resnet50-conv")[0].c` is 3.

The files keep the columns of their sources; this module defines their meaning.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class BatchedProduct:
    """`batch` independent matrix products: Y[m, n] += X[m, k] · W[k, n].

    `x_transposed` says that X is stored [k][m], `w_transposed` that W is stored [n][k]. `number` is the row
    of the suite from 0, `part` what the source calls it, such as `training` or `BERT-base encode`.
    """

    number: int
    part: str
    m: int
    n: int
    k: int
    x_transposed: bool
    w_transposed: bool
    batch: int = 1

    @property
    def flops(self) -> int:
        """The multiplications and additions of all products."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Conv:
    """N images of `c` channels and h × w pixels, with `k` filters of r × s and equal padding on both sides.

    Each of `groups` has c / groups channels and k / groups filters of its own. Units: pixels.
    """

    number: int
    part: str
    n: int
    c: int
    h: int
    w: int
    k: int
    r: int
    s: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    groups: int = 1

    @property
    def p(self) -> int:
        """The number of rows of the result."""
        return (self.h + 2 * self.pad_h - self.r) // self.stride_h + 1

    @property
    def q(self) -> int:
        """The number of columns of the result."""
        return (self.w + 2 * self.pad_w - self.s) // self.stride_w + 1

    @property
    def flops(self) -> int:
        """The multiplications and additions, including those of padding."""
        return 2 * self.n * self.k * self.p * self.q * (self.c // self.groups) * self.r * self.s


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A unidirectional recurrent layer: `batch` sequences of `steps` steps, with as many features as units.

    `cell` is `vanilla` (with relu), `lstm` or `gru`.
    """

    number: int
    part: str
    cell: str
    hidden: int
    batch: int
    steps: int

    @property
    def gates(self) -> int:
        """The number of products with the state in one step."""
        return {"vanilla": 1, "lstm": 4, "gru": 3}[self.cell]

    @property
    def flops(self) -> int:
        """The multiplications and additions of the products with the state. Those with the input are equally many."""
        return 2 * self.gates * self.hidden**2 * self.batch * self.steps


@dataclass(frozen=True, slots=True)
class Sparse:
    """C[m, n] += A[m, k] · B[k, n] with a sparse A, which has `nonzeros` nonzero elements."""

    number: int
    part: str
    m: int
    n: int
    k: int
    nonzeros: int

    @property
    def flops(self) -> int:
        """The multiplications and additions with nonzero elements."""
        return 2 * self.nonzeros * self.n


Shape = BatchedProduct | Conv | Recurrent | Sparse
_Row = Mapping[str, str]


def read_suite(name: str) -> tuple[Shape, ...]:
    """Return all shapes of a suite in file order. Raises: KeyError for a name that is not in SUITES."""
    _, read = _FILES[name]
    with suite_path(name).open(encoding="utf-8", newline="") as text:
        return tuple(read(number, row) for number, row in enumerate(csv.DictReader(text)))


def usual_sizes() -> dict[str, int]:
    """Return a small default for each named size at which shipped kernels are compared (`*`: all other sizes)."""
    with (_FOLDER / "sizes.csv").open(encoding="utf-8", newline="") as file:
        return {row["size"]: int(row["value"]) for row in csv.DictReader(file)}


def suite_path(name: str) -> Path:
    """Return the file of a suite. Raises: KeyError for a name that is not in SUITES."""
    return _FOLDER / _FILES[name][0]


def _deepbench_gemm(number: int, row: _Row) -> BatchedProduct:
    """Return a row-major product: column-major C[m, n] = A[m, k] · B[k, n] is Y[n, m] = X[n, k] · W[k, m]."""
    m, n, k = (int(row[x]) for x in ("n", "m", "k"))
    return BatchedProduct(number, row["suite"], m, n, k, row["b_t"] == "1", row["a_t"] == "1")


def _transformer_gemm(number: int, row: _Row) -> BatchedProduct:
    m, n, k, batch = (int(row[x]) for x in ("m", "n", "k", "gemm_batch"))
    part = f"{row['model']} {row['phase']}"
    return BatchedProduct(number, part, m, n, k, row["a_t"] == "1", row["b_t"] == "1", batch)


def _deepbench_conv(number: int, row: _Row) -> Conv:
    columns = ("n", "c", "h", "w", "k", "filter_h", "filter_w", "stride_h", "stride_w", "pad_h", "pad_w")
    return Conv(number, row["suite"], *(int(row[x]) for x in columns))


def _layer_conv(number: int, row: _Row) -> Conv:
    columns = ("N", "C", "H", "W", "K", "R", "S", "stride", "stride", "pad", "pad", "groups")
    return Conv(number, row["network"], *(int(row[x]) for x in columns))


def _deepbench_rnn(number: int, row: _Row) -> Recurrent:
    return Recurrent(
        number, row["suite"], row["cell"], int(row["hidden"]), int(row["batch"]), int(row["timesteps"])
    )


def _deepbench_sparse(number: int, row: _Row) -> Sparse:
    m, n, k = (int(row[x]) for x in "mnk")
    return Sparse(number, row["suite"], m, n, k, round(m * k * (1 - float(row["sparsity"]))))


_FILES: Mapping[str, tuple[str, Callable[[int, _Row], Shape]]] = {
    "deepbench-gemm": ("deepbench_gemm.csv", _deepbench_gemm),
    "deepbench-conv": ("deepbench_conv.csv", _deepbench_conv),
    "deepbench-rnn": ("deepbench_rnn.csv", _deepbench_rnn),
    "deepbench-sparse": ("deepbench_sparse.csv", _deepbench_sparse),
    "resnet50-conv": ("resnet50_conv.csv", _layer_conv),
    "mobilenet-conv": ("mobilenet_conv.csv", _layer_conv),
    "transformer-gemm": ("transformer_gemm.csv", _transformer_gemm),
}
SUITES = tuple(_FILES)
"""The names of all suites."""
