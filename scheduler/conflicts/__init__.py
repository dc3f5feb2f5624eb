"""Explain why no schedule has the decisions that a user fixed, or why none fits the machine."""
