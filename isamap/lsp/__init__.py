"""A language server: what editors ask about kernels, descriptions and the language inside them."""
