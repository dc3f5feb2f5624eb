"""The kernels that isamap ships."""
