"""Graphs of operations partitioned into kernels: which nodes each computes, their order, and cache residence."""
