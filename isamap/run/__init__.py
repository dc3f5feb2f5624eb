"""Build the output of `isamap.emit`, run it under limits, and measure it."""
