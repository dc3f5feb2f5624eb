"""Proofs that mappings are sound, independent of the search that found them."""
