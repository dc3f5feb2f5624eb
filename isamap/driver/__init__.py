"""The pipeline as one function, with its plug-ins resolved and injected."""
