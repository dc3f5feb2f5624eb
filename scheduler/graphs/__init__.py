"""Graphs of operations parted into kernels: which nodes together, in which order, what stays near."""
