"""From a kernel, its mapping and its schedule to loops, allocations, moves and instruction issues."""
