"""The operators of ONNX that kernels and moves perform, by name: each a function of an applied node."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from isamap.onnx.operators.convolutions import CONVOLUTIONS
from isamap.onnx.operators.elementwise import ELEMENTWISE, Lowered
from isamap.onnx.operators.fixed import FIXED
from isamap.onnx.operators.indexing import INDEXING
from isamap.onnx.operators.layout import LAYOUT
from isamap.onnx.operators.norms import NORMS
from isamap.onnx.operators.products import PRODUCTS
from isamap.onnx.operators.quantised import OF_RUNTIMES, QUANTISED
from isamap.onnx.operators.recurrent import RECURRENT
from isamap.onnx.operators.reductions import REDUCTIONS
from isamap.onnx.operators.resizing import RESIZING
from isamap.onnx.operators.sampling import SAMPLING
from isamap.onnx.operators.spectra import SPECTRA
from isamap.onnx.operators.views import VIEWS
from isamap.onnx.operators.windows import WINDOWS

_TABLES = (
    CONVOLUTIONS,
    ELEMENTWISE,
    FIXED,
    INDEXING,
    LAYOUT,
    NORMS,
    PRODUCTS,
    QUANTISED,
    RECURRENT,
    REDUCTIONS,
    RESIZING,
    SAMPLING,
    SPECTRA,
    VIEWS,
    WINDOWS,
)

STANDARD: Mapping[str, Lowered] = dict(chain.from_iterable(table.items() for table in _TABLES))
assert len(STANDARD) == sum(map(len, _TABLES)), "an operator stands in two tables"

OPERATORS: Mapping[str, Mapping[str, Lowered]] = {"": STANDARD, "com.microsoft": OF_RUNTIMES}
"""The operators by their domain."""
