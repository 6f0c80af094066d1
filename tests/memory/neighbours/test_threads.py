"""Work shared among threads: everything done once, whatever the number of threads."""

from __future__ import annotations

import threading

import pytest

from mfec.memory.neighbours.threads import WORTH_SHARING, n_threads, on_all_cores


@pytest.mark.parametrize("number", ["1", "2", "7"])
@pytest.mark.parametrize("work", [0, WORTH_SHARING])
def test_every_task_is_done_once(monkeypatch: pytest.MonkeyPatch, number: str, work: int) -> None:
    monkeypatch.setenv("MFEC_THREADS", number)
    for n_tasks in (0, 1, 500):
        done: list[int] = []
        on_all_cores(done.append, range(n_tasks), work=work)
        assert sorted(done) == list(range(n_tasks))


def test_little_work_stays_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MFEC_THREADS", "2")
    used: set[int] = set()
    on_all_cores(lambda _: used.add(threading.get_ident()), range(100), work=WORTH_SHARING - 1)
    assert used == {threading.get_ident()}


def test_much_work_reaches_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks that each wait for the other can only be done by two threads."""
    monkeypatch.setenv("MFEC_THREADS", "2")
    both = threading.Barrier(2, timeout=30)
    on_all_cores(lambda _: both.wait(), range(2), work=WORTH_SHARING)


@pytest.mark.parametrize("fails_at", [0, 1])
def test_an_error_in_any_thread_is_raised(monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    monkeypatch.setenv("MFEC_THREADS", "2")
    both = threading.Barrier(2, timeout=30)

    def fail_at(task: int) -> None:
        both.wait()
        if task == fails_at:
            raise ArithmeticError(f"task {task}")

    with pytest.raises(ArithmeticError, match=f"task {fails_at}"):
        on_all_cores(fail_at, range(2), work=WORTH_SHARING)


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("1", 1), ("0", 1), ("-2", 1)])
def test_the_number_of_threads_can_be_set(monkeypatch: pytest.MonkeyPatch, given: str, expected: int) -> None:
    monkeypatch.setenv("MFEC_THREADS", given)
    assert n_threads() == expected
