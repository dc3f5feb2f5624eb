"""The built-in searchers, each a plug-in in the same way as those of other packages."""
