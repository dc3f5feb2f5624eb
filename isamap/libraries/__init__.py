"""Libraries that compute whole kernels: their calls as data, their locations, and a matcher for kernels."""
