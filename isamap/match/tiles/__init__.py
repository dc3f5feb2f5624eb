"""A mapping applied to a statement: its loops, and the part of each operand that one issue uses."""
