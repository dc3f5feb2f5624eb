"""What was measured on a machine, kept and used: calibration, tuning database, measured costs."""
