"""What is a request to stop, and what is the same one again."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

from mfec.experiments.stopping import ASK_TO_STOP, STOP_SIGNALS, passing_on, stop_signals


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock by which requests are told apart: it stands still but for what a test adds to `now`."""
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)  # type: ignore[attr-defined]
    monkeypatch.setattr("mfec.experiments.stopping.time", clock)
    return clock


def test_a_signal_asks_to_stop_and_the_same_one_later_stops_at_once(clock):
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    with stop_signals() as stop:
        assert not stop
        os.kill(os.getpid(), signal.SIGINT)
        assert stop == [signal.SIGINT]
        clock.now += 1.1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert {number: signal.getsignal(number) for number in before} == before


def test_one_request_that_arrives_as_several_signals_saves(clock):
    """`timeout` signals a process and its group; a terminal tells all processes, and `--seeds` passes it on later."""
    try:
        with stop_signals() as stop:
            for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, ASK_TO_STOP, signal.SIGTERM):
                os.kill(os.getpid(), number)
                clock.now += 0.2
    except KeyboardInterrupt:
        pytest.fail("it stopped at once, without a checkpoint")
    assert stop[0] == signal.SIGTERM


def test_a_signal_of_another_kind_is_no_second_request_however_late(clock):
    try:
        with stop_signals() as stop:
            for number in STOP_SIGNALS:
                os.kill(os.getpid(), number)
                clock.now += 100.0
    except KeyboardInterrupt:
        pytest.fail("it stopped at once, without a checkpoint")
    assert stop == list(STOP_SIGNALS)


def test_what_is_passed_on_is_passed_on_once_for_each_request(clock):
    passed_on: list[float] = []
    with passing_on(lambda: passed_on.append(clock.now)):
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
            clock.now += 0.3
        assert passed_on == [1000.0]
        clock.now += 0.3
        os.kill(os.getpid(), signal.SIGTERM)
        assert len(passed_on) == 2
