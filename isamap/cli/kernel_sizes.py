"""Parse kernels with sizes for commands that predict: `--kernel 'gemm_f32 M=64 N=64 K=64'`."""

from __future__ import annotations

from collections.abc import Sequence

from isamap.cli.early_words import read_sizes
from isamap.driver.inputs import read_kernel
from isamap.driver.options import WORD, WORDS, Option, count, plugin
from isamap.driver.predicted import KernelCase, shipped_cases
from isamap.source import UsageProblem

KERNEL_CASES = Option(
    ("--kernel",), "'KERNEL SIZES'",
    "A kernel at sizes, as in 'gemm_f32 M=64 N=64 K=64'; repeatable; all shipped ones otherwise.", WORDS, (),
)  # fmt: skip
HEURISTIC = Option(
    ("--heuristic",), "NAME", "How to schedule: greedy, which is quick, annealing, or cpsat.",
    plugin("heuristic"), "greedy",
)  # fmt: skip
JOBS = Option(("--jobs",), "COUNT", "Processes; one for each core otherwise.", count(1, 1024), 0)

SCHEDULER = Option(
    ("--scheduler",), "ADDRESS", "Work on the cluster of this scheduler of Dask, as tcp://head:8786.", WORD, None,
)  # fmt: skip


def read_cases(words: Sequence[str]) -> tuple[KernelCase, ...]:
    """Return the requested kernels with their sizes. Raises: UsageProblem."""
    if not words:
        return shipped_cases()
    found: list[KernelCase] = []
    for word in words:
        name, *sizes = word.split()[:32] or [""]
        if not name:
            said = "`--kernel` takes a kernel and its sizes"
            raise UsageProblem.of("usage", said, help="write `--kernel 'gemm_f32 M=64 N=64 K=64'`")
        found.append(KernelCase(read_kernel(name), tuple(read_sizes(sizes).items())))
    return tuple(found)


def refuse_standard_input(words: Sequence[str]) -> None:
    """Refuse to read standard input if several processes would have to read it. Raises: UsageProblem."""
    if "-" in words:
        said = "this command reads a description several times, and standard input once"
        raise UsageProblem.of("usage", said, help="save it in a file")
