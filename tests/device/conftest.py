"""The process that owns the device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .serving import Owner


@pytest.fixture
def owner() -> Iterator[Owner]:
    owner = Owner()
    yield owner
    owner.end()
