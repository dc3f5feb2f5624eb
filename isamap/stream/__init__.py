"""Encoded programs: a lowered program unrolled, encoded, written to a file, decoded, listed and executed.

    LoweredProgram -> commands -> words -> file -> words -> commands -> memories

The reader of a file knows the machine's description and the file, nothing else of the compilation.
"""
