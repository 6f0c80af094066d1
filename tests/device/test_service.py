"""Runs that share a device: each is answered as if it had the device to itself, and hears of its own trouble alone."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfec.device import Channel, DeviceError, Response, open_channel
from mfec.device.service import PipeChannel, Service
from mfec.embeddings import RandomProjection

from ..waiting import PATIENCE
from .serving import Owner, at_once, parts


class Script:
    """A run with things to store and to ask, for whatever channel."""

    def __init__(self, number: int, dim: int = 16, observation_size: int = 300) -> None:
        rng = np.random.default_rng(number)
        self.n_actions, self.dim = 2 + number, dim
        n = 60 + 40 * number
        self.actions, self.slots = rng.integers(0, self.n_actions, n), np.arange(n)
        for action in range(self.n_actions):
            self.slots[self.actions == action] = np.arange((self.actions == action).sum())
        self.states = rng.standard_normal((n, dim)).astype(np.float32)
        self.weights = RandomProjection(observation_size, dim, seed=number).weights
        self.observations = rng.integers(0, 256, (3, observation_size), np.uint8)
        self.queries = rng.standard_normal((1 + number, dim)).astype(np.float32)

    def begin(self, channel: Channel) -> None:
        channel.open(self.n_actions, 1000, self.dim)
        channel.project_with(self.weights)
        channel.store(self.actions, self.slots, self.states)

    def wanted(self, n: int) -> np.ndarray:
        return np.random.default_rng(n).random((n, self.n_actions)) < 0.8

    def look_up(self, channel: Channel, k: int = 3) -> Response:
        return channel.look_up(self.queries, self.wanted(len(self.queries)), k)

    def look_up_seen(self, channel: Channel, k: int = 3) -> Response:
        return channel.look_up(self.observations, self.wanted(3), k)

    def everything(self, channel: Channel) -> list[bytes]:
        """All answers of a channel, as bytes."""
        self.begin(channel)
        answers: list[Any] = [self.look_up_seen(channel), self.look_up(channel), self.look_up_seen(channel, k=5)]
        more = np.concatenate([self.queries] * 4)
        answers += [self.look_up(channel, k=1), channel.look_up(more, self.wanted(len(more)), 1), self.look_up(channel)]
        answers += [channel.rows(self.actions[::-3].copy(), self.slots[::-3].copy())]
        answers += [channel.distances(self.queries[0], 1)]
        channel.shrink(np.arange(self.n_actions))  # none of action 0, one of action 1
        answers += [self.look_up(channel), channel.distances(self.queries[0], 1)]
        return [part for answer in answers for part in parts(answer)]


def alone(script: Script, what: str) -> list[bytes]:
    channel = open_channel("cpu")
    script.begin(channel)
    return parts(getattr(script, what)(channel))


# -- The same answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observation_size", [300, 20], ids=["pictures", "pictures smaller than states"])
def test_a_pipe_gives_the_answers_of_a_channel_in_this_process(owner: Owner, observation_size: int) -> None:
    script = Script(1, observation_size=observation_size)
    assert script.everything(owner.connect()) == script.everything(open_channel("cpu"))


def test_look_ups_of_many_runs_are_one_search_with_the_answers_of_each(owner: Owner) -> None:
    scripts = [Script(number) for number in range(3)]
    channels = [owner.connect() for _ in scripts]
    for script, channel in zip(scripts, channels, strict=True):
        script.begin(channel)
    for what in ("look_up", "look_up_seen", "look_up"):
        calls = [
            lambda script=script, channel=channel: getattr(script, what)(channel)  # noqa: B023
            for script, channel in zip(scripts, channels, strict=True)
        ]
        for script, found in zip(scripts, at_once(owner, *calls), strict=True):
            assert isinstance(found, Response), found
            assert parts(found) == alone(script, what)
    assert owner.merged == [3, 3, 3]


def test_runs_side_by_side_do_not_get_in_each_others_way(owner: Owner) -> None:
    scripts = [Script(number) for number in range(3)]
    channels = [owner.connect() for _ in scripts]
    calls = [
        lambda script=script, channel=channel: script.everything(channel)
        for script, channel in zip(scripts, channels, strict=True)
    ]
    for script, answers in zip(scripts, at_once(owner, *calls), strict=True):
        assert answers == script.everything(open_channel("cpu"))


# -- Trouble ----------------------------------------------------------------------------------------------------------


def not_opened(script: Script, channel: Channel) -> None:
    script.look_up(channel)


def without_projection(script: Script, channel: Channel) -> None:
    channel.open(script.n_actions, 1000, script.dim)
    script.look_up_seen(channel)


def of_another_size(script: Script, channel: Channel) -> None:
    script.begin(channel)
    channel.look_up(script.observations[:, :-1], script.wanted(3), 3)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (not_opened, "no buffers were opened on this channel"),
        (without_projection, "there is no projection for observations of 300 numbers"),
        (of_another_size, "there is no projection for observations of 299 numbers"),
    ],
)
def test_a_look_up_that_cannot_be_answered_is_the_error_of_its_run_alone(
    owner: Owner, fault: Callable[[Script, Channel], None], said: str
) -> None:
    good, bad, other = Script(0), Script(1), Script(2)
    channels = [owner.connect() for _ in range(3)]
    good.begin(channels[0])
    other.begin(channels[2])
    answers = at_once(
        owner,
        lambda: good.look_up_seen(channels[0]),
        lambda: fault(bad, channels[1]),
        lambda: other.look_up_seen(channels[2]),
    )
    assert isinstance(answers[1], DeviceError), answers[1]
    assert said in str(answers[1])
    assert "\n" not in str(answers[1])
    for script, found in ((good, answers[0]), (other, answers[2])):
        assert isinstance(found, Response), found
        assert parts(found) == alone(script, "look_up_seen")
    # The run that made the mistake can go on as well.
    assert bad.everything(channels[1]) == bad.everything(open_channel("cpu"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda channel: channel.rows(np.array([9]), np.array([0])),
        lambda channel: channel.store(np.array([0]), np.array([0]), np.zeros((1, 3), np.float32)),
        lambda channel: channel.distances(np.zeros(16, np.float32), 9),
    ],
    ids=["rows of no action", "states of another size", "distances of no action"],
)
def test_whatever_goes_wrong_is_a_device_error_and_the_channel_goes_on(owner: Owner, ask: Callable) -> None:
    script, other = Script(1), Script(2)
    channel, beside = owner.connect(), owner.connect()
    script.begin(channel)
    other.begin(beside)
    with pytest.raises(DeviceError, match=r"^the device failed: "):
        ask(channel)
    assert parts(script.look_up(channel)) == alone(script, "look_up")
    assert parts(other.look_up(beside)) == alone(other, "look_up")


def test_a_run_that_has_ended_is_forgotten_and_the_others_go_on(owner: Owner) -> None:
    gone, script = Script(1), Script(2)
    first, second = owner.connect(), owner.connect()
    gone.begin(first)
    gone.look_up(first)
    script.begin(second)
    first._pipe.close()
    assert parts(script.look_up(second)) == alone(script, "look_up")
    assert script.everything(second) == script.everything(open_channel("cpu"))


def test_a_forgotten_run_leaves_nothing_on_the_device() -> None:
    service = Service("cpu")
    ours, theirs = Pipe()
    service.respond(ours, "open", 1, 100, 2)
    service.respond(ours, "store", np.array([0]), np.array([0]), np.ones((1, 2), np.float32))
    service.respond(ours, "rows", np.array([0]), np.array([0]))
    service.forget(ours)
    service.respond(ours, "rows", np.array([0]), np.array([0]))
    *_, before, after = [theirs.recv() for _ in range(4)]
    assert before.tolist() == [[1.0, 1.0]]
    assert isinstance(after, DeviceError)


# -- The owner ends ---------------------------------------------------------------------------------------------------

OWNER_ENDED = r"^the process that owns the device has ended$"


def test_after_the_owner_closed_its_end_everything_is_an_error_that_says_so() -> None:
    ours, theirs = Pipe()
    channel = PipeChannel(theirs, "cpu")
    ours.close()
    for ask in (
        lambda: channel.open(2, 100, 4),
        lambda: channel.rows(np.array([0]), np.array([0])),
        lambda: channel.look_up(np.zeros((1, 4), np.float32), np.ones((1, 2), np.bool_), 1),
    ):
        with pytest.raises(DeviceError, match=OWNER_ENDED):
            ask()


def test_an_owner_that_ends_instead_of_answering() -> None:
    ours, theirs = Pipe()
    channel = PipeChannel(theirs, "cpu")
    thread = threading.Thread(target=lambda: (ours.recv(), ours.close()), daemon=True)
    thread.start()
    with pytest.raises(DeviceError, match=OWNER_ENDED):
        channel.rows(np.array([0]), np.array([0]))
    thread.join(PATIENCE)


ENDS_DURING_A_LOOK_UP = """
import multiprocessing, os, sys
from pathlib import Path
import numpy as np
from mfec.device import DeviceError
from mfec.device.service import PipeChannel, Service

def play(pipe, ours, path):
    ours.close()
    channel = PipeChannel(pipe, "cpu")
    channel.open(1, 100, 2)
    channel.store(np.array([0]), np.array([0]), np.ones((1, 2), np.float32))
    try:
        channel.look_up(np.zeros((1, 2), np.float32), np.ones((1, 1), np.bool_), 1)
        said = "an answer"
    except DeviceError as error:
        said = str(error)
    path.with_suffix(".new").write_text(said)
    path.with_suffix(".new").rename(path)

context = multiprocessing.get_context("fork")
ours, theirs = context.Pipe()
context.Process(target=play, args=(theirs, ours, Path(sys.argv[1]))).start()
theirs.close()
service = Service("cpu")
for _ in range(3):
    service.respond(ours, *ours.recv())  # open, store, and where look-ups lie
os._exit(0)
"""


def test_a_run_does_not_wait_for_an_owner_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "said"
    command = [sys.executable, "-c", ENDS_DURING_A_LOOK_UP, str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        _, printed = process.communicate(timeout=PATIENCE)  # the run holds this pipe as well: it has ended too
    assert path.exists(), printed
    assert path.read_text() == "the process that owns the device has ended"
