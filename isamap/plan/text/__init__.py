"""Canonical text of a schedule: printed, edited by hand, and read. A problem is only printed."""

from isamap.plan.text.problem import print_problem
from isamap.plan.text.reading import parse_schedule
from isamap.plan.text.several import box_of, check_versions, print_versions, split_versions
from isamap.plan.text.writing import DIGITS, blocks_words, fixed_words, loop_words, print_nest, print_schedule

__all__ = [
    "DIGITS", "blocks_words", "box_of", "check_versions", "fixed_words", "loop_words", "parse_schedule",
    "print_nest", "print_problem", "print_schedule", "print_versions", "split_versions",
]  # fmt: skip
