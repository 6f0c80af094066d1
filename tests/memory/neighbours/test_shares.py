"""Searches shared among threads evenly."""

from __future__ import annotations

import numpy as np
import pytest

from mfec.memory.neighbours.shares import WORTH_SHARING, fair_shares


def test_little_work_is_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MFEC_THREADS", "2")
    shares, threads = fair_shares(np.ones((1, 2), np.bool_), np.array([WORTH_SHARING - 2, 1]))
    assert (shares.any(), threads) == (False, 1)


def test_one_thread_has_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MFEC_THREADS", "1")
    shares, threads = fair_shares(np.ones((3, 2), np.bool_), np.array([WORTH_SHARING, WORTH_SHARING]))
    assert (shares.any(), threads) == (False, 1)


def test_shares_are_even(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest part alone on one side, the others together on the other; what is not wanted weighs nothing."""
    monkeypatch.setenv("MFEC_THREADS", "2")
    sizes = np.array([1, 5, 2, 2, 9]) * WORTH_SHARING
    (shares,), threads = fair_shares(np.array([[True, True, True, True, False]]), sizes)
    assert threads == 2
    assert shares[1] not in shares[[0, 2, 3]]
    assert len(set(shares[[0, 2, 3]])) == 1
