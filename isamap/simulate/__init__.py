"""Simulate programs and mappings by interpreting the meaning of every instruction."""

from isamap.simulate.issue import CannotPad, perform
from isamap.simulate.lanes import Cut

__all__ = ["CannotPad", "Cut", "perform"]
