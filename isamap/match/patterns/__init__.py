"""The matcher's view of instructions: expression trees, axes, parameters, addresses."""
