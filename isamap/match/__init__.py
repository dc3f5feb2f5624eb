"""Every valid way in which a machine's instructions perform a kernel, and why the others cannot."""
