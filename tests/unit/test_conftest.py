"""The net that is spread under all tests holds."""

from __future__ import annotations

import os
import socket

import hypothesis
import pytest


def test_a_test_that_connects_to_the_network_fails() -> None:
    with socket.socket() as s, pytest.raises(pytest.fail.Exception, match="never uses the network"):
        s.connect(("127.0.0.1", 9))


def test_a_test_that_looks_up_a_host_name_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="never uses the network"):
        socket.create_connection(("localhost", 9))


def test_tests_have_a_cache_of_their_own() -> None:
    assert "pytest" in os.environ["ISAMAP_CACHE_DIR"]


def test_properties_do_not_depend_on_the_clock() -> None:
    assert hypothesis.settings.default is not None
    assert hypothesis.settings.default.deadline is None
