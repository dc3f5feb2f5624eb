"""The machine descriptions that isamap ships."""
