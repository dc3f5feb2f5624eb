"""Posing the problem: kernel × machine → what a scheduler chooses from, each mapping with what it costs."""
