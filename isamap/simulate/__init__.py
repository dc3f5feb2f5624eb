"""Runs a lowered program by interpreting each instruction's own semantics."""
