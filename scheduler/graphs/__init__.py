"""Graph partitioning into kernels: which nodes each kernel computes, their order, and cache residence."""
