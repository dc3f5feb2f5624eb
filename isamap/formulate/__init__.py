"""Formulate the scheduling problem of a kernel on a machine: the mappings, each with its costs."""
