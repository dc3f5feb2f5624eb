"""The decisions about an option: their values, their constraints, and the loops that they lead to."""
