"""Machine descriptions that parse, check and interpret, and emit nothing yet."""
