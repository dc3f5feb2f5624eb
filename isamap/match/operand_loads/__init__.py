"""Operand loads and stores: instructions that load an operand into a register, or store a result."""
