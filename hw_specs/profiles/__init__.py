"""Profiles by families of processors. Data only."""
