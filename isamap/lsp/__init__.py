"""The language server: answers to editors about kernels, descriptions and the language inside them."""
