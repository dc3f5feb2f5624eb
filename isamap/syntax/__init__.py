"""From text to typed IR: grammar, syntax tree, name resolution and type checking."""
