"""Explain why an instruction does not perform a statement, and suggest edits."""
