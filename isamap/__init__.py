"""isamap maps kernels onto machines that are described as data, and emits the code."""
