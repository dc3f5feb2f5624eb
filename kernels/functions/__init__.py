"""The function library: one file per function, with a definition in the language and its largest error."""
