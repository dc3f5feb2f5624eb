"""The benchmark: emitted code compared with installed libraries, in one run."""

from isamap.bench.campaign import Campaign, run_campaign
from isamap.bench.cases import SUITES, pick_rows

__all__ = ["SUITES", "Campaign", "pick_rows", "run_campaign"]
