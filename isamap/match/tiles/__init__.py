"""A mapping applied: its loops, and what one issue holds of each operand."""
