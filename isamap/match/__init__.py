"""Match kernels with machines: all mappings, and the chains of instructions that load and store operands."""

from isamap.match.mappings.enumerate import find_mappings, statement_mappings
from isamap.match.mappings.groups import GroupMapping, find_groups
from isamap.match.mappings.mapping import AxisGroup, CountMode, Mapping, statement_text
from isamap.match.mappings.validity import Violation, first_violation
from isamap.match.moves.chains import Movement
from isamap.match.moves.epilogue_moves import (
    BufferOnTheWay,
    WayOut,
    find_delivered,
    held_way_out,
    lay_out_between,
    stored_way_out,
    through,
)
from isamap.match.moves.joined import find_joined_axes
from isamap.match.moves.movement import choices, movements
from isamap.match.moves.scratch_buffers import (
    InBetween,
    computed_inputs,
    find_clearing,
    find_dma,
    scratchpads,
)
from isamap.match.moves.transfers import (
    Copy,
    computed_counts,
    copy_by_axes,
    copy_by_cells,
    fills_all,
    find_packing,
    find_transfer,
    packing_ns,
    shown_axes,
)
from isamap.match.moves.transposed_blocks import find_block
from isamap.match.moves.variants import MappingVariant, count_groupings, count_variants, variants
from isamap.match.operand_loads.load_request import (
    LoadRequest,
    MoveSearch,
    OperandMove,
    Present,
    registers_of,
)
from isamap.match.operand_loads.load_search import find_operand_load
from isamap.match.operand_loads.standing import hide_position
from isamap.match.operand_loads.store_search import find_operand_store
from isamap.match.patterns.address import Location
from isamap.match.patterns.pattern import Pattern, pattern_of
from isamap.match.patterns.reach import coordinate_names
from isamap.match.patterns.unify import places
from isamap.match.proofs.proof import Proof, prove
from isamap.match.refusals.refuse import lacking_abilities, refusals
from isamap.match.refusals.rejection import LACKING, REASONS, Rejection
from isamap.match.refusals.remedies import Fix, Gain, fixes, improving_rewrites
from isamap.match.tiles.operand_tiles import (
    OFFSET,
    OperandTile,
    Tile,
    apply_mapping,
    bring,
    in_tiles,
    is_read_of,
    layouts,
    move_search_of,
    part_of,
    profile_sizes,
    tensor_strides,
)
from isamap.match.tiles.walks import LoopAxis, choose_params
from isamap.match.tiles.written_values import Written, in_register, sum_of_lanes

__all__ = [
    "LACKING", "OFFSET", "REASONS", "AxisGroup", "BufferOnTheWay", "Copy", "CountMode", "Fix", "Gain",
    "GroupMapping", "InBetween", "LoadRequest", "Location", "LoopAxis", "Mapping", "MappingVariant",
    "MoveSearch", "Movement", "OperandMove", "OperandTile", "Pattern", "Present", "Proof", "Rejection",
    "Tile", "Violation", "WayOut", "Written", "apply_mapping", "bring", "choices",
    "choose_params", "computed_counts", "computed_inputs", "coordinate_names", "copy_by_axes",
    "copy_by_cells", "count_groupings", "count_variants", "fills_all", "find_block", "find_clearing",
    "find_delivered", "find_dma", "find_groups", "find_joined_axes", "find_mappings", "find_operand_load",
    "find_operand_store", "find_packing", "find_transfer", "first_violation", "fixes", "held_way_out",
    "hide_position", "improving_rewrites", "in_register", "in_tiles", "is_read_of", "lacking_abilities",
    "lay_out_between", "layouts", "move_search_of", "movements", "packing_ns", "part_of", "pattern_of",
    "places", "profile_sizes", "prove", "refusals", "registers_of", "scratchpads", "shown_axes",
    "statement_mappings", "statement_text", "stored_way_out", "sum_of_lanes", "tensor_strides", "through",
    "variants",
]  # fmt: skip
