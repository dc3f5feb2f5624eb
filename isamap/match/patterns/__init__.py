"""Instructions as the matcher uses them: expression trees, axes, parameters, addresses."""
