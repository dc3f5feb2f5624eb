"""What moves for each operand of a mapping: chains, copies, buffers in scratchpads."""
