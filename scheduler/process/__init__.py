"""CP-SAT in a process of its own: what is asked and answered, and what is done where that process fails."""
