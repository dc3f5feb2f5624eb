"""A cost model: nanoseconds of issues, of moves and of packing; caches do not exist."""

from math import prod

from isamap.plan.cost import Cases, Const, total
from isamap.plan.decisions import stage_of


class IssueCount:
    """Prices what it knows, and nothing else."""

    name = "issues"

    def expression(self, problem, nest, option):
        issues = prod(-(-axis.extent // axis.tile) for axis in option.axes)
        parts = [Const(option.interval_ns * issues)]
        for operand in option.operands:
            elements = prod(axis.extent for axis in option.axes if axis.name in operand.axes)
            costs = operand.costs
            in_place = Const((costs.direct_ns or 0.0) * issues)
            packed = Const(operand.staging.pack_ns_per_element * elements + (costs.staged_ns or 0.0) * issues)
            stage = stage_of(nest.statement, operand.name)
            parts.append(Cases(stage, ((0, in_place), (1, packed), (2, packed))))
        return total(parts)
