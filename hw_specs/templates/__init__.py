"""Descriptions to begin with, as `isamap hw new` writes them: data only."""
