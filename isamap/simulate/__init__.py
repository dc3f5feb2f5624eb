"""Simulate programs and mappings by interpreting the meaning of every instruction."""

from isamap.simulate.issue import CannotPad, Cut, perform

__all__ = ["CannotPad", "Cut", "perform"]
