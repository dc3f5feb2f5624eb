"""IR to IR: canonical statements, guards and fills made explicit."""

from isamap.transform.distinct import tells_apart
from isamap.transform.guards import identity_of, make_guards_explicit
from isamap.transform.statements import Statement, in_ordered_loops, reads, statements, symbols

__all__ = [
    "Statement",
    "identity_of",
    "in_ordered_loops",
    "make_guards_explicit",
    "reads",
    "statements",
    "symbols",
    "tells_apart",
]
