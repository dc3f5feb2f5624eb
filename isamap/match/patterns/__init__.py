"""What matching sees of instructions: expression trees, axes, parameters, addresses."""
