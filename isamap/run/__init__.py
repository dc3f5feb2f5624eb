"""Build what `isamap.emit` prints, run it under limits, and measure it."""
