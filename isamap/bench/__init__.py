"""The benchmark that the project lives by: emitted code beside the installed libraries, in one run."""

from isamap.bench.campaign import Campaign, run_campaign
from isamap.bench.cases import (
    CLASSES,
    FORMS_OF_DTYPE,
    SUITES,
    Form,
    GemmCase,
    Row,
    forms_of,
    gemm_cases,
    pick_rows,
)

__all__ = [
    "CLASSES",
    "FORMS_OF_DTYPE",
    "SUITES",
    "Campaign",
    "Form",
    "GemmCase",
    "Row",
    "forms_of",
    "gemm_cases",
    "pick_rows",
    "run_campaign",
]
