"""Mappings proved sound, independently of how they were found."""
