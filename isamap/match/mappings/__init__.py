"""Every mapping of a statement onto an instruction, each found valid or not."""
