"""What descriptions may name of each family of processors: `isamap.machine.allowed` reads it. Data only."""
