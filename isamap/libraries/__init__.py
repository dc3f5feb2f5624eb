"""Libraries that compute whole kernels: their calls as data, their locations, and matching kernels."""
