"""Costs and constraints as CP-SAT reads them."""
