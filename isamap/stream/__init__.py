"""Programs as words: a lowered program unrolled, encoded, written to a file, read back, listed and performed.

    LoweredProgram -> commands -> words -> file -> words -> commands -> memories

The reader of a file knows the machine's description and the file, nothing else of the compilation.
"""
