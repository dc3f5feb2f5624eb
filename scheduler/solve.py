"""The child process: reads a job from standard input, writes the schedule's text to standard output.

python -m isamap.scheduler.solve < job.json
"""

from __future__ import annotations

import sys

from isamap.plan.text import print_schedule
from isamap.scheduler.answer import schedule
from isamap.scheduler.exchange import read_job


def main() -> None:
    """Answers one job."""
    problem, limit_s, fixed = read_job(sys.stdin.read())
    sys.stdout.write(print_schedule(schedule(problem, limit_s=limit_s, fixed=fixed)))


if __name__ == "__main__":
    main()
