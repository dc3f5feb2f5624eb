"""Every diagnostic code with its explanation: what `isamap explain CODE` prints.

Codes are stable and kebab-case. A layer with many codes has a table of its own, in order; the few of the
other layers stand here.
"""

from __future__ import annotations

from isamap.source.command_codes import CODEGEN_CODES, COMMAND_CODES
from isamap.source.diagnostic import Explanation
from isamap.source.language_codes import LANGUAGE_CODES
from isamap.source.library_codes import LIBRARY_CODES
from isamap.source.machine_codes import MACHINE_CODES
from isamap.source.match_codes import MATCH_CODES
from isamap.source.model_codes import MODEL_CODES
from isamap.source.plan_codes import PLAN_CODES
from isamap.source.stream_codes import STREAM_CODES

_OTHERS: dict[str, Explanation] = {
    "array-missing": Explanation(
        "no array for an operand",
        "Inputs and operands that are updated need an array each.",
    ),
    "not-sampled": Explanation(
        "single elements cannot be evaluated",
        "Elements of a result can be computed alone only where no `seq` loop and no earlier statement "
        "makes them depend on everything else.",
    ),
    "scalar-missing": Explanation(
        "no value for a scalar",
        "Every scalar parameter needs a value.",
    ),
    "unknown-operand": Explanation(
        "an array for an operand that does not exist",
        "Arrays are given by the names of operands.",
    ),
    "unknown-scalar": Explanation(
        "a value for a scalar that does not exist",
        "Values are given by the names of scalar parameters.",
    ),
    "index-values": Explanation(
        "an array of indices with values that its declaration excludes",
        "An array that is `col: i32[N] values 0..K - 1` has values from 0 to K - 1, and where it says"
        " `ascending` none is below the one before it. Each call is checked, before anything is computed.",
    ),
    "wrong-shape": Explanation(
        "an array of the wrong shape",
        "An array has the shape that its operand declares for the given sizes.",
    ),
    "wrong-values": Explanation(
        "an array with values outside its type",
        "The values of an array are values of its operand's type.",
    ),
}

_TABLES = (
    CODEGEN_CODES,
    COMMAND_CODES,
    LANGUAGE_CODES,
    LIBRARY_CODES,
    MACHINE_CODES,
    MATCH_CODES,
    MODEL_CODES,
    PLAN_CODES,
    STREAM_CODES,
    _OTHERS,
)

CODES: dict[str, Explanation] = dict(
    sorted((item for table in _TABLES for item in table.items()), key=lambda item: item[0])
)
