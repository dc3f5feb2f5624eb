"""Explain why no schedule has a person's fixed decisions, or fits the machine."""
