"""Data movement for each operand of a mapping: chains of instructions, copies, buffers in scratchpads."""
