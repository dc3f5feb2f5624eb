"""Rewrite the IR: canonical statements, explicit guards and fills, legal rewrites of whole kernels."""

from isamap.ir.walk import distinct_reads, reads, symbols
from isamap.transform.blocks import Blocks, in_blocks, share_blocks
from isamap.transform.edges import edges_apart
from isamap.transform.factors import factorisations
from isamap.transform.flattening import dense_form
from isamap.transform.guards import is_summed_everywhere, make_guards_explicit
from isamap.transform.inlining import inline_temporaries
from isamap.transform.loop_bounds import bound_loops_in_blocks
from isamap.transform.margins import tells_apart
from isamap.transform.rewrite import Refusal, Rewrite, accesses
from isamap.transform.rewrites import refused_rewrites, rewrites
from isamap.transform.statements import Statement, bounding_axes, identity_of, in_ordered_loops, statements
from isamap.transform.winograd import winograd_forms

__all__ = [
    "Blocks", "Refusal", "Rewrite", "Statement", "accesses", "bound_loops_in_blocks", "bounding_axes",
    "dense_form", "distinct_reads", "edges_apart", "factorisations", "identity_of", "in_blocks",
    "in_ordered_loops", "inline_temporaries", "is_summed_everywhere", "make_guards_explicit", "reads",
    "refused_rewrites", "rewrites", "share_blocks", "statements", "symbols", "tells_apart",
    "winograd_forms",
]  # fmt: skip
