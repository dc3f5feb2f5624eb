"""Kernel × machine → every mapping, and the chains of moves that supply and deliver operands."""

from isamap.match.mappings.enumerate import find_mappings, statement_mappings
from isamap.match.mappings.groups import GroupMapping, find_groups
from isamap.match.mappings.mapping import AxisGroup, CountMode, Mapping, is_simple, statement_text
from isamap.match.mappings.validity import Violation, first_violation
from isamap.match.moves.blocks import find_block, find_tiles_block
from isamap.match.moves.chains import Movement, issued_ns
from isamap.match.moves.joined import address_steps, joined, tiles_along
from isamap.match.moves.movement import choices, in_scratchpad, movements, tile_of
from isamap.match.moves.passing import (
    WayOut,
    beside,
    counted,
    find_delivered,
    held_way_out,
    lay_out_between,
    stored_way_out,
    through,
    way_out,
)
from isamap.match.moves.scratch_buffers import (
    Clearing,
    Dma,
    clearing_ns,
    find_clearing,
    find_dma,
    homes_of,
    no_clearing,
    scratch_move,
    scratchpads,
    uncleared,
)
from isamap.match.moves.transfers import (
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
from isamap.match.moves.variants import Variant, count_groupings, count_variants, variants
from isamap.match.patterns.address import Location
from isamap.match.patterns.pattern import Pattern, pattern_of
from isamap.match.patterns.reach import dims
from isamap.match.patterns.unify import places, read_twice
from isamap.match.proofs.proof import Proof, prove
from isamap.match.refusals.refuse import lacking_abilities, refusals
from isamap.match.refusals.rejection import LACKING, REASONS, Rejection
from isamap.match.refusals.remedies import Fix, Gain, fixes, improving_rewrites
from isamap.match.supplies.delivery import find_delivery, least_copy_ns
from isamap.match.supplies.standing import is_lane, standing
from isamap.match.supplies.supplying import find_supply
from isamap.match.supplies.want import BlockMove, Leaf, Suppliers, Supply, Want
from isamap.match.tiles.beginnings import begun_by, held_beginning
from isamap.match.tiles.held_sums import (
    Written,
    in_register,
    own_sum,
    start_of_sum,
    sum_of_lanes,
    tiles_apart,
    written_by,
)
from isamap.match.tiles.operand_tiles import (
    OFFSET,
    OperandTile,
    Tile,
    accumulator_delivery,
    apply_mapping,
    bring,
    in_tiles,
    is_read_of,
    layouts,
    profile_sizes,
    sums_can_be_padded,
    suppliers_of,
    tensor_strides,
)
from isamap.match.tiles.walks import LoopAxis, Loops, choose_params, walk_of
from isamap.match.tiles.windows import Window, windows_of

__all__ = [
    "LACKING",
    "OFFSET",
    "REASONS",
    "AxisGroup",
    "BlockMove",
    "Clearing",
    "Copy",
    "CountMode",
    "Dma",
    "Fix",
    "Gain",
    "GroupMapping",
    "Leaf",
    "Location",
    "LoopAxis",
    "Loops",
    "Mapping",
    "Movement",
    "OperandTile",
    "Pattern",
    "Proof",
    "Rejection",
    "Suppliers",
    "Supply",
    "Tile",
    "Transfer",
    "Variant",
    "Violation",
    "Want",
    "WayOut",
    "Window",
    "Written",
    "accumulator_delivery",
    "address_steps",
    "apply_mapping",
    "begun_by",
    "beside",
    "bring",
    "choices",
    "choose_params",
    "clearing_ns",
    "copy_by_axes",
    "copy_by_cells",
    "count_groupings",
    "count_variants",
    "counted",
    "dims",
    "fills_all",
    "find_block",
    "find_clearing",
    "find_delivered",
    "find_delivery",
    "find_dma",
    "find_groups",
    "find_mappings",
    "find_packing",
    "find_supply",
    "find_tiles_block",
    "find_transfer",
    "first_violation",
    "fixes",
    "held_beginning",
    "held_way_out",
    "homes_of",
    "improving_rewrites",
    "in_register",
    "in_scratchpad",
    "in_tiles",
    "is_lane",
    "is_read_of",
    "is_simple",
    "issued_ns",
    "joined",
    "lacking_abilities",
    "lay_out_between",
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
    "standing",
    "start_of_sum",
    "statement_mappings",
    "statement_text",
    "stored_way_out",
    "sum_of_lanes",
    "sums_can_be_padded",
    "suppliers_of",
    "tensor_strides",
    "through",
    "tile_of",
    "tiles_along",
    "tiles_apart",
    "transfer_ns",
    "uncleared",
    "variants",
    "walk_of",
    "way_out",
    "windows_of",
    "written_by",
]
