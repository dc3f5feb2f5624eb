"""The pipeline as functions (compile, run and verify), the output folder, and the Python interface."""
