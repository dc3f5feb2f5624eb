"""Search for schedules: lower bounds and cuts that exclude mappings, greedy, annealing."""
