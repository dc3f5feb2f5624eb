"""The collector of cycles rests while a problem is built, and is afterwards as it was."""

from __future__ import annotations

import gc

import pytest

from isamap.plan.collecting import collector_paused


def test_the_collector_rests_inside_and_runs_afterwards() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_runs_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="no"), collector_paused():
        raise ValueError("no")
    assert gc.isenabled()


def test_a_collector_that_rested_before_keeps_resting() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
