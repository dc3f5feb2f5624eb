"""Templates of new descriptions for `isamap hw new`. Data only."""
