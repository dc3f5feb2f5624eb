"""Kernel × machine → every mapping, and the chains of moves that supply and deliver operands."""

from isamap.match.abilities import lacking_abilities
from isamap.match.address import Location, address_of
from isamap.match.apart import sum_of_lanes, tiles_apart
from isamap.match.bounds import simplify, simplify_expr
from isamap.match.chains import MoveKind, Movement
from isamap.match.chosen import choose_params
from isamap.match.copying import (
    Copy,
    Transfer,
    copy_by_axes,
    copy_by_cells,
    fills_all,
    find_packing,
    find_transfer,
    packing_ns,
    shown_axes,
    transfer_ns,
)
from isamap.match.delivery import find_delivery, least_copy_ns, widths
from isamap.match.dma import Clearing, Dma, find_clearing, find_dma
from isamap.match.find import find_mappings, statement_mappings
from isamap.match.fix import Fix, fixes
from isamap.match.improving import Gain, Improvement, improving_rewrites
from isamap.match.instructions import Pattern, pattern_of
from isamap.match.layouts import OFFSET, in_tiles, layouts, profile_sizes, suppliers_of, tensor_strides
from isamap.match.mapping import AxisGroup, CountMode, Mapping, is_simple, statement_text
from isamap.match.movement import choices, in_scratchpad, movements, tile_of
from isamap.match.params import extents_of
from isamap.match.proof import Proof, prove
from isamap.match.reach import dims
from isamap.match.refuse import refusals
from isamap.match.rejection import LACKING, REASONS, Rejection
from isamap.match.scratch import homes_of, no_clearing, scratch_move, scratchpads, uncleared
from isamap.match.several import GroupMapping, find_groups
from isamap.match.standing import is_lane, standing
from isamap.match.supply import find_supply
from isamap.match.tiles import (
    OperandTile,
    Tile,
    accumulator_delivery,
    apply_mapping,
    bring,
    is_read_of,
    sums_can_be_padded,
)
from isamap.match.unify import places, read_twice
from isamap.match.validity import Violation, first_violation
from isamap.match.variants import Tail, Variant, count_groupings, count_variants, variants
from isamap.match.walks import LoopAxis, Loops, walk_of
from isamap.match.want import Leaf, Suppliers, Supply, Want
from isamap.match.written import Written, in_register, own_sum, start_of_sum, written_by

__all__ = [
    "LACKING",
    "OFFSET",
    "REASONS",
    "AxisGroup",
    "Clearing",
    "Copy",
    "CountMode",
    "Dma",
    "Fix",
    "Gain",
    "GroupMapping",
    "Improvement",
    "Leaf",
    "Location",
    "LoopAxis",
    "Loops",
    "Mapping",
    "MoveKind",
    "Movement",
    "OperandTile",
    "Pattern",
    "Proof",
    "Rejection",
    "Suppliers",
    "Supply",
    "Tail",
    "Tile",
    "Transfer",
    "Variant",
    "Violation",
    "Want",
    "Written",
    "accumulator_delivery",
    "address_of",
    "apply_mapping",
    "bring",
    "choices",
    "choose_params",
    "copy_by_axes",
    "copy_by_cells",
    "count_groupings",
    "count_variants",
    "dims",
    "extents_of",
    "fills_all",
    "find_clearing",
    "find_delivery",
    "find_dma",
    "find_groups",
    "find_mappings",
    "find_packing",
    "find_supply",
    "find_transfer",
    "first_violation",
    "fixes",
    "homes_of",
    "improving_rewrites",
    "in_register",
    "in_scratchpad",
    "in_tiles",
    "is_lane",
    "is_read_of",
    "is_simple",
    "lacking_abilities",
    "layouts",
    "least_copy_ns",
    "movements",
    "no_clearing",
    "own_sum",
    "packing_ns",
    "pattern_of",
    "places",
    "profile_sizes",
    "prove",
    "read_twice",
    "refusals",
    "scratch_move",
    "scratchpads",
    "shown_axes",
    "simplify",
    "simplify_expr",
    "standing",
    "start_of_sum",
    "statement_mappings",
    "statement_text",
    "sum_of_lanes",
    "sums_can_be_padded",
    "suppliers_of",
    "tensor_strides",
    "tile_of",
    "tiles_apart",
    "transfer_ns",
    "uncleared",
    "variants",
    "walk_of",
    "widths",
    "written_by",
]
