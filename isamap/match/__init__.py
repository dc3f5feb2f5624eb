"""Match kernels with machines: all mappings, and the chains of instructions that load and store operands."""

from isamap.match.mappings.enumerate import find_mappings, statement_mappings
from isamap.match.mappings.groups import GroupMapping, find_groups
from isamap.match.mappings.mapping import AxisGroup, CountMode, Mapping, is_simple, statement_text
from isamap.match.mappings.validity import Violation, first_violation
from isamap.match.moves.chains import Movement, issued_ns, steps_of
from isamap.match.moves.epilogue_moves import (
    BufferOnTheWay,
    WayOut,
    find_delivered,
    held_way_out,
    lay_out_between,
    stored_way_out,
    through,
    way_out,
)
from isamap.match.moves.joined import address_steps, find_joined_axes, tiles_along
from isamap.match.moves.movement import choices, movements, tile_of
from isamap.match.moves.padding import pad_tiles
from isamap.match.moves.scratch_buffers import (
    Clearing,
    Dma,
    InBetween,
    clearing_ns,
    computed_inputs,
    explain_uncleared,
    find_clearing,
    find_dma,
    homes_of,
    largest,
    no_clearing,
    scratch_move,
    scratchpads,
)
from isamap.match.moves.together import TilesMove, tiles_move
from isamap.match.moves.transfers import (
    Copy,
    Transfer,
    computed_counts,
    copy_by_axes,
    copy_by_cells,
    fills_all,
    find_packing,
    find_transfer,
    packing_ns,
    shown_axes,
    transfer_ns,
)
from isamap.match.moves.transposed_blocks import find_block, find_tiles_block
from isamap.match.moves.variants import MappingVariant, count_groupings, count_variants, variants
from isamap.match.operand_loads.load_request import (
    BlockMove,
    LoadRequest,
    MoveSearch,
    OperandMove,
    Present,
    count_registers,
    registers_of,
)
from isamap.match.operand_loads.load_search import find_operand_load
from isamap.match.operand_loads.standing import hide_position
from isamap.match.operand_loads.store_search import find_operand_store, least_copy_ns
from isamap.match.patterns.address import Location, is_lane
from isamap.match.patterns.pattern import Pattern, pattern_of
from isamap.match.patterns.reach import coordinate_names
from isamap.match.patterns.unify import places, read_twice
from isamap.match.proofs.proof import Proof, prove
from isamap.match.refusals.refuse import lacking_abilities, refusals
from isamap.match.refusals.rejection import LACKING, REASONS, Rejection
from isamap.match.refusals.remedies import Fix, Gain, fixes, improving_rewrites
from isamap.match.tiles.operand_tiles import (
    OFFSET,
    OperandTile,
    Tile,
    accumulator_store,
    apply_mapping,
    bring,
    in_tiles,
    is_read_of,
    layouts,
    leaves_in_scratchpad,
    move_search_of,
    part_of,
    profile_sizes,
    sums_can_be_padded,
    tensor_strides,
)
from isamap.match.tiles.overlapping_windows import WindowOverlap, windows_of
from isamap.match.tiles.sum_starts import find_zeroing, initial_load
from isamap.match.tiles.walks import LoopAxis, Loops, choose_params, lengths_at_run_time, may_write, walk_of
from isamap.match.tiles.written_values import (
    Written,
    get_own_sum,
    in_register,
    start_of_sum,
    sum_of_lanes,
    tiles_apart,
    written_value,
)

__all__ = [
    "LACKING", "OFFSET", "REASONS", "AxisGroup", "BlockMove", "BufferOnTheWay", "Clearing", "Copy",
    "CountMode", "Dma", "Fix", "Gain", "GroupMapping", "InBetween", "LoadRequest", "Location", "LoopAxis",
    "Loops", "Mapping", "MappingVariant", "MoveSearch", "Movement", "OperandMove", "OperandTile", "Pattern",
    "Present", "Proof", "Rejection", "Tile", "TilesMove", "Transfer", "Violation", "WayOut", "WindowOverlap",
    "Written", "accumulator_store", "address_steps", "apply_mapping", "bring", "choices", "choose_params",
    "clearing_ns", "computed_counts", "computed_inputs", "coordinate_names", "copy_by_axes", "copy_by_cells",
    "count_groupings", "count_registers", "count_variants", "explain_uncleared", "fills_all", "find_block",
    "find_clearing", "find_delivered", "find_dma", "find_groups", "find_joined_axes", "find_mappings",
    "find_operand_load", "find_operand_store", "find_packing", "find_tiles_block", "find_transfer",
    "find_zeroing", "first_violation", "fixes", "get_own_sum", "held_way_out", "hide_position", "homes_of",
    "improving_rewrites", "in_register", "in_tiles", "initial_load", "is_lane", "is_read_of", "is_simple",
    "issued_ns", "lacking_abilities", "largest", "lay_out_between", "layouts", "least_copy_ns",
    "leaves_in_scratchpad", "lengths_at_run_time", "may_write", "move_search_of", "movements", "no_clearing",
    "packing_ns", "pad_tiles", "part_of", "pattern_of", "places", "profile_sizes", "prove", "read_twice",
    "refusals", "registers_of", "scratch_move", "scratchpads", "shown_axes", "start_of_sum",
    "statement_mappings", "statement_text", "steps_of", "stored_way_out", "sum_of_lanes",
    "sums_can_be_padded", "tensor_strides", "through", "tile_of", "tiles_along", "tiles_apart", "tiles_move",
    "transfer_ns", "variants", "walk_of", "way_out", "windows_of", "written_value",
]  # fmt: skip
