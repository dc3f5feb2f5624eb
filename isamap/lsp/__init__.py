"""The language server: answers for editors about kernels, descriptions and the language in them."""
