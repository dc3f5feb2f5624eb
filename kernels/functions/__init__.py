"""The library of functions: a file for each, a definition in the language with its largest error."""
