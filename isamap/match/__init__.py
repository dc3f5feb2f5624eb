"""Kernel × machine → every mapping, and the chains of moves that supply and deliver operands."""

from isamap.match.address import Location, address_of
from isamap.match.bounds import simplify, simplify_expr
from isamap.match.delivery import find_delivery, widths
from isamap.match.find import find_mappings, statement_mappings
from isamap.match.instructions import Pattern, pattern_of
from isamap.match.mapping import AxisGroup, CountMode, Mapping, is_simple, statement_text
from isamap.match.params import extents_of
from isamap.match.reach import dims
from isamap.match.refuse import REASONS, Rejection, refusals
from isamap.match.supply import Leaf, Suppliers, Supply, Want, find_supply
from isamap.match.tiles import (
    LoopAxis,
    OperandTile,
    Tile,
    accumulator_delivery,
    apply_mapping,
    choose_params,
    is_read_of,
)

__all__ = [
    "REASONS",
    "AxisGroup",
    "CountMode",
    "Leaf",
    "Location",
    "LoopAxis",
    "Mapping",
    "OperandTile",
    "Pattern",
    "Rejection",
    "Suppliers",
    "Supply",
    "Tile",
    "Want",
    "accumulator_delivery",
    "address_of",
    "apply_mapping",
    "choose_params",
    "dims",
    "extents_of",
    "find_delivery",
    "find_mappings",
    "find_supply",
    "is_read_of",
    "is_simple",
    "pattern_of",
    "refusals",
    "simplify",
    "simplify_expr",
    "statement_mappings",
    "statement_text",
    "widths",
]
