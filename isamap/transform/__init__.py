"""IR to IR: canonical statements, guards and fills made explicit, axes fused and split."""

from isamap.transform.statements import Statement, reads, statements, symbols

__all__ = ["Statement", "reads", "statements", "symbols"]
