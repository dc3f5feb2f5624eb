"""Problem sizes of well-known suites and networks as data, and their reader. README.md names the sources."""

from isamap.suites.shapes import (
    SUITES,
    BatchedProduct,
    Conv,
    Recurrent,
    Shape,
    Sparse,
    read_suite,
    suite_path,
    usual_sizes,
)

__all__ = [
    "SUITES", "BatchedProduct", "Conv", "Recurrent", "Shape", "Sparse", "read_suite", "suite_path",
    "usual_sizes",
]  # fmt: skip
