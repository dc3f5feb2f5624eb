"""A compilation on one page: its facts, and each picture of them, as HTML, SVG, text and JSON."""
