"""The names of each processor family that descriptions may use (see `isamap.machine.allowed`). Data only."""
