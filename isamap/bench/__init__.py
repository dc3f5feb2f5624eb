"""The benchmark that the project lives by: emitted code beside the installed libraries, in one run."""

from isamap.bench.campaign import Campaign, run_campaign
from isamap.bench.cases import FORMS_OF_DTYPE, SUITES, gemm_cases, pick_rows

__all__ = [
    "FORMS_OF_DTYPE",
    "SUITES",
    "Campaign",
    "gemm_cases",
    "pick_rows",
    "run_campaign",
]
