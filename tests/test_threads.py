"""Work shared among threads: everything done once, whatever the number of threads."""

from __future__ import annotations

import threading

import pytest

from mfec.threads import Work, n_threads, on_all_cores

from .waiting import PATIENCE


@pytest.mark.parametrize("number", ["1", "2", "7"])
@pytest.mark.parametrize("shares", [0, 1, 2, 500])
def test_every_share_is_done_once(monkeypatch: pytest.MonkeyPatch, number: str, shares: int) -> None:
    monkeypatch.setenv("MFEC_THREADS", number)
    done: list[int] = []
    on_all_cores(done.append, shares)
    assert sorted(done) == list(range(shares))


def test_two_shares_reach_two_threads() -> None:
    """Two shares that each wait for the other can only be done by two threads."""
    both = threading.Barrier(2, timeout=PATIENCE)
    on_all_cores(lambda _: both.wait(), 2)


@pytest.mark.parametrize("fails_at", [0, 1])
def test_an_error_in_any_thread_is_raised(fails_at: int) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    def fail_at(share: int) -> None:
        both.wait()
        if share == fails_at:
            raise ArithmeticError(f"share {share}")

    with pytest.raises(ArithmeticError, match=f"share {fails_at}"):
        on_all_cores(fail_at, 2)


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("1", 1), ("0", 1), ("-2", 1)])
def test_the_number_of_threads_can_be_set(monkeypatch: pytest.MonkeyPatch, given: str, expected: int) -> None:
    monkeypatch.setenv("MFEC_THREADS", given)
    assert n_threads() == expected


def test_a_helper_works_while_nobody_waits() -> None:
    begun = threading.Event()
    work = Work(lambda _: begun.set(), 1, helpers=1)
    assert begun.wait(PATIENCE)
    work.finish()


def test_without_helpers_the_work_is_done_at_the_end() -> None:
    done: list[int] = []
    work = Work(done.append, 3, helpers=0)
    assert done == []
    work.finish()
    assert done == [0, 1, 2]
