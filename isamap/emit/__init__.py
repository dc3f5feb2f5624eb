"""Printers from a lowered program to the text of a program. No module here starts another program."""
