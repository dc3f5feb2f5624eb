"""One view per file of what the compiler did, as text and as JSON."""
