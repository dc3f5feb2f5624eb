"""The order of operations in the steady state of an innermost loop."""
