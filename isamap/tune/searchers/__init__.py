"""The built-in searchers, each a plug-in like those of other packages."""
