"""What is measured: calibration, and the profiles that it leaves."""
