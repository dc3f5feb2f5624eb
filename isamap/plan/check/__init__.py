"""The independent judge of schedules: shares no code with the heuristics and solvers whose work it checks."""

from isamap.plan.check.judge import check_schedule, live_registers, warn_unused_capacity

__all__ = ["check_schedule", "live_registers", "warn_unused_capacity"]
