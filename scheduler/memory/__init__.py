"""Buffers in a memory: where they lie while they live."""
