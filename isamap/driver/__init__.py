"""The pipeline as functions: compile, run and verify; the output folder; the Python interface."""
