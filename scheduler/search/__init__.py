"""Ways to a schedule: floors and cuts that rule mappings out, greedy, annealing."""
