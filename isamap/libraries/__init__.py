"""Libraries that perform whole kernels: their calls as data, where they are installed, what each computes."""
