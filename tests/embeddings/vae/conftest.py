"""Networks here are so small that two threads would mostly wait for each other."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _single_threaded(one_thread: None) -> None:
    """All tests of this folder."""
