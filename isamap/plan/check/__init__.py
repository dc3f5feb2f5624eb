"""The independent checker of schedules. It shares no code with the heuristics and solvers that it checks."""

from isamap.plan.check.judge import check_schedule, live_registers, warn_unused_capacity

__all__ = ["check_schedule", "live_registers", "warn_unused_capacity"]
