"""Work shared among threads: everything done once, whatever the number of threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from mfec.memory.neighbours.threads import WORTH_SHARING, fair_shares, n_threads, on_all_cores


@pytest.mark.parametrize("number", ["1", "2", "7"])
@pytest.mark.parametrize("shares", [0, 1, 2, 500])
def test_every_share_is_done_once(monkeypatch: pytest.MonkeyPatch, number: str, shares: int) -> None:
    monkeypatch.setenv("MFEC_THREADS", number)
    done: list[int] = []
    on_all_cores(done.append, shares)
    assert sorted(done) == list(range(shares))


def test_two_shares_reach_two_threads() -> None:
    """Two shares that each wait for the other can only be done by two threads."""
    both = threading.Barrier(2, timeout=30)
    on_all_cores(lambda _: both.wait(), 2)


@pytest.mark.parametrize("fails_at", [0, 1])
def test_an_error_in_any_thread_is_raised(fails_at: int) -> None:
    both = threading.Barrier(2, timeout=30)

    def fail_at(share: int) -> None:
        both.wait()
        if share == fails_at:
            raise ArithmeticError(f"share {share}")

    with pytest.raises(ArithmeticError, match=f"share {fails_at}"):
        on_all_cores(fail_at, 2)


def test_little_work_is_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MFEC_THREADS", "2")
    assert not fair_shares(np.ones((1, 2), np.bool_), np.array([WORTH_SHARING - 2, 1])).any()


def test_one_thread_has_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MFEC_THREADS", "1")
    assert not fair_shares(np.ones((3, 2), np.bool_), np.array([WORTH_SHARING, WORTH_SHARING])).any()


def test_shares_are_even(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest part alone on one side, the others together on the other; what is not wanted weighs nothing."""
    monkeypatch.setenv("MFEC_THREADS", "2")
    sizes = np.array([1, 5, 2, 2, 9]) * WORTH_SHARING
    shares = fair_shares(np.array([[True, True, True, True, False]]), sizes)[0]
    assert shares[1] not in shares[[0, 2, 3]]
    assert len(set(shares[[0, 2, 3]])) == 1


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("1", 1), ("0", 1), ("-2", 1)])
def test_the_number_of_threads_can_be_set(monkeypatch: pytest.MonkeyPatch, given: str, expected: int) -> None:
    monkeypatch.setenv("MFEC_THREADS", given)
    assert n_threads() == expected
