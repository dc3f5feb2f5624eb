"""Reports on compilations, one view per file, as text and as JSON."""
