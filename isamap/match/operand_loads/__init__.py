"""Operand loads and stores: instructions that bring an operand into a register, or a result out of it."""
