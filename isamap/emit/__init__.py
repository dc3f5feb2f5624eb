"""Printers: from a lowered program to the text of a program. Nothing here starts another program."""
