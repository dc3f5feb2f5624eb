"""Data movement of each operand of a mapping: chains of instructions, copies, and buffers in scratchpads."""
