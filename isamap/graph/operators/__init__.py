"""The ONNX operators that kernels and moves perform, by name: each a function of an applied node."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from isamap.graph.operators.aten import ATEN
from isamap.graph.operators.data_movement import LAYOUT, VIEWS
from isamap.graph.operators.elementwise import ELEMENTWISE, OWN, Lowered, look_up_bytes
from isamap.graph.operators.fixed import FIXED
from isamap.graph.operators.indexing import INDEXING, SAMPLING
from isamap.graph.operators.pooling import CONVOLUTIONS, WINDOWS
from isamap.graph.operators.products import PRODUCTS, SPECTRA, SUMS
from isamap.graph.operators.quantised import BYTES, OF_RUNTIMES, QUANTISED
from isamap.graph.operators.recurrent import RECURRENT
from isamap.graph.operators.reductions import NORMS, REDUCTIONS
from isamap.graph.operators.resizing import RESIZING
from isamap.graph.operators.runtimes import COMBINED

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

OPERATORS: Mapping[str, Mapping[str, Lowered]] = {
    "": STANDARD,
    "aten": ATEN,
    "com.microsoft": {**COMBINED, **OF_RUNTIMES},
    "isamap": {**OWN, **BYTES, **SUMS, "Lookup": lambda o: look_up_bytes(o, o[0], o[1])},
}
"""The operators by their domain."""
