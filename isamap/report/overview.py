"""Several machines beside each other: what each computes of the same kernels.

kernel       dot-16  gemv-16  matmul-16x16x16
gemm_f32          1        4                2
conv2d_nchw       7       56               98
total             8       60              100
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.report.columns import table
from isamap.report.coverage import LEGEND, Coverage, cell_text


def overview_text(found: Sequence[Coverage]) -> str:
    """A row for each statement, a column for each machine with what all of its instructions have."""
    machines = ", ".join(c.machine for c in found)
    mode = "" if found[0].mode == "complete" else f", counted as {found[0].mode}"
    rows = [("kernel", *(c.machine for c in found))]
    rows += [(one.label, *(cell_text(c.rows[n].total) for c in found)) for n, one in enumerate(found[0].rows)]
    rows.append(("total", *(cell_text(c.total) for c in found)))
    shown = table(rows, right=range(1, len(found) + 1))
    return f"coverage of {machines}{mode}\n\n{shown}\n\n{LEGEND}"
