"""Translate costs and constraints to CP-SAT."""
