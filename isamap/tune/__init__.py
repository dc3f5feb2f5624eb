"""Measurements: calibration, profiles, measured schedules, and the tuning database."""
