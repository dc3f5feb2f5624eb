"""Thresholds of the graph compiler, which stand for prices that no cost model has yet.

A change here changes which kernels a network has. Each was judged by networks of the suites; none is a limit of a
machine.
"""

from __future__ import annotations

CHAIN_KERNELS = 3
"""The kernels of an attention that may become one: scores, a function of their rows, and the second product."""
CHAIN_ELEMENTS = 1 << 14
"""The least elements between two kernels of a chain: smaller results stay in a near cache without blocks."""
EXPRESSION_CHARACTERS = 1500
"""The longest fused expression: instruction sequences are searched for each of its parts."""
KERNEL_STATEMENTS = 16
"""The most statements of a fused kernel: the time to schedule them grows faster than their number."""
REPEATED_CHARACTERS = 120
"""The most characters of all copies of an expression that occurs several times in another."""
MOVED_FACTOR_ROWS = 8
"""The least rows of a left factor for which moving the right factor is cheaper than reading it across its order.

Source: the scores of a vision transformer took 330 us, and 133 us with 20 us for the moves.
"""
AHEAD_KERNELS = 4
"""The least kernels for which processes are started: each needs a second or two before its first kernel."""
SPILLED_BYTES = 1 << 22
"""The least packed weights that wait in a file, instead of in memory, until the library is written."""
PACKED_BYTES = 1 << 18
"""The least weights worth packing: smaller ones stay in a near cache, and packing takes time to plan."""
