"""Enumerate the mappings of a statement onto an instruction, and decide whether each is valid."""
