"""What a run has lived through: written by environments and batches, read by episodes; bounded; true after a stop."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from mfec import MFEC
from mfec.callbacks import Callback
from mfec.history import History, HistoryWriter
from mfec.history.database import database_file
from mfec.interface import Steps

from ..playing import Walk
from ..waiting import wait_until

SHAPE = (8, 8)
Step = tuple[
    int, int, tuple[float, bool], int, bytes
]  # environment, action, reward and loss of a life, frame, observation


class Story:
    """Made-up steps of two groups whose episodes end at random, and what a history of them must tell."""

    def __init__(self, envs: int = 3, *, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.groups = [slice(0, (envs + 1) // 2), slice((envs + 1) // 2, envs)]
        self.numbers, self.at, self.games = list(range(1, envs + 1)), [0] * envs, [0] * envs
        self.begun, self.frames = envs, 0
        self.told: dict[int, list[Step]] = {}

    def tell(self, writer: HistoryWriter, rounds: int, *, until: int = 40) -> None:
        for _ in range(rounds):
            for own in self.groups:
                m = own.stop - own.start
                seen = self.rng.integers(0, 4, (m, *SHAPE), np.uint8)
                actions, rewards = self.rng.integers(0, 300, m), self.rng.standard_normal(m)
                ended = self.rng.random(m) < 1 / until
                lost_life = (ended | (self.rng.random(m) < 0.1)).tolist()
                valid = np.ones(m, np.bool_)
                at = self.numbers[own], self.at[own], self.games[own]
                steps = Steps(self.frames, own, *at, 4, seen, actions, rewards, ended, lost_life, valid)
                writer.add(steps)
                for row, env_id in enumerate(range(own.start, own.stop)):
                    got = (float(rewards[row]), lost_life[row])
                    step = (env_id, int(actions[row]), got, self.frames, seen[row].tobytes())
                    self.told.setdefault(self.numbers[env_id], []).append(step)
                    self.frames += 4
                    self.at[env_id] += 1
                    if ended[row]:
                        self.begun += 1
                        self.numbers[env_id], self.at[env_id] = self.begun, 0
                        self.games[env_id] += 1

    @property
    def in_progress(self) -> dict[int, int]:
        return dict(zip(self.numbers, self.at, strict=True))


def check(history: History, told: dict[int, list[Step]], *, frames: bool = True) -> None:
    assert len(history) == len(told)
    for number, steps in told.items():
        episode = history.episode(number)
        assert episode.whole
        assert {episode.env_id} == {env_id for env_id, *_ in steps}
        assert episode.actions.tolist() == [action for _, action, *_ in steps]
        assert list(zip(episode.rewards.tolist(), episode.lost_life.tolist(), strict=True)) == [
            got for _, _, got, *_ in steps
        ]
        assert episode.begun == history.begun(number) == steps[0][3]
        if frames:
            assert history.kept(number) == [(0, len(steps))]
            for step, (*_, seen) in enumerate(steps):
                first, found = history.frames(number, step, SHAPE)
                assert found[step - first].tobytes() == seen


def test_everything_is_read_as_it_was_lived(tmp_path):
    story = Story()
    writer = HistoryWriter(tmp_path, picture=SHAPE)
    story.tell(writer, 200)
    writer.close()
    history = History(tmp_path)
    check(history, story.told)
    over = {number for number in story.told if number not in story.in_progress}
    assert {number for number in story.told if history.episode(number).ended} == over
    assert len(over) > 5


def test_long_episodes_are_written_in_parts(tmp_path):
    story = Story(1)
    writer = HistoryWriter(tmp_path, picture=SHAPE)
    story.tell(writer, 400, until=10**9)
    writer.close()
    check(History(tmp_path), story.told)


@pytest.mark.parametrize("rounds", [1, 32, 60])
def test_what_came_after_the_checkpoint_goes(tmp_path, rounds):
    """A run that is killed and resumed writes what happened the second time."""
    story = Story()
    writer = HistoryWriter(tmp_path, picture=SHAPE)
    story.tell(writer, 77)
    writer.flush()  # with the checkpoint
    begun, in_progress = story.begun, story.in_progress
    state, told = story.rng.bit_generator.state, {number: list(steps) for number, steps in story.told.items()}
    at = [list(own) for own in (story.numbers, story.at, story.games)], story.begun, story.frames
    story.tell(writer, rounds)
    writer.close()

    again = Story(seed=99)  # another course of things
    (again.numbers, again.at, again.games), again.begun, again.frames = at
    again.told = told
    writer = HistoryWriter(tmp_path, picture=SHAPE, begun=begun, in_progress=in_progress)
    again.tell(writer, 60)
    writer.close()
    check(History(tmp_path), again.told)
    assert state != again.rng.bit_generator.state


def test_without_a_checkpoint_nothing_stays(tmp_path):
    story = Story()
    writer = HistoryWriter(tmp_path, picture=SHAPE)
    story.tell(writer, 50)
    writer.close()
    HistoryWriter(tmp_path).close()
    assert (len(History(tmp_path)), History(tmp_path).frames_bytes) == (0, 0)


def test_a_game_that_had_just_begun_at_the_checkpoint_begins_again(tmp_path):
    """The checkpoint counts it, but its first step came later."""
    story = Story(1)
    writer = HistoryWriter(tmp_path)
    while story.at != [0] or story.begun == 1:
        story.tell(writer, 1)
    writer.flush()
    state = story.numbers[:], story.at[:], story.games[:], story.begun, story.frames
    told = {number: list(steps) for number, steps in story.told.items()}
    story.tell(writer, 1)
    writer.close()
    writer = HistoryWriter(tmp_path, begun=story.begun, in_progress={story.numbers[0]: 0})
    again = Story(1, seed=5)
    again.numbers, again.at, again.games, again.begun, again.frames = state
    again.told = told
    again.tell(writer, 50)
    writer.close()
    check(History(tmp_path), again.told, frames=False)


KILLED = """
import os, pathlib, signal, sys
from tests.history.test_history import SHAPE, HistoryWriter, Story
story, writer = Story(), HistoryWriter(pathlib.Path(sys.argv[1]), picture=SHAPE)
story.tell(writer, 200)
writer.flush()
story.tell(writer, 300)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_leaves_at_least_what_was_flushed(tmp_path):
    """And every part that is there is right."""
    story, writer = Story(), HistoryWriter(tmp_path / "whole", picture=SHAPE)
    story.tell(writer, 200)
    flushed = {number: len(steps) for number, steps in story.told.items()}
    story.tell(writer, 300)
    writer.close()
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "killed")], check=False, cwd=Path(__file__).parents[2])
    history = History(tmp_path / "killed")
    assert set(flushed) <= {number for number in story.told if number in history}
    for number, told in story.told.items():
        if number not in history:
            continue
        episode = history.episode(number)
        assert episode.whole
        assert len(episode) >= flushed.get(number, 0)
        assert episode.actions.tolist() == [action for _, action, *_ in told][: len(episode)]


def test_damaged_contents_are_as_if_they_had_not_been_recorded(tmp_path):
    story = Story(1)
    writer = HistoryWriter(tmp_path, picture=SHAPE)
    story.tell(writer, 100, until=10**9)
    writer.close()
    with sqlite3.connect(database_file(tmp_path)) as database:
        for table in ("steps", "frames"):
            database.execute(f"UPDATE {table} SET content = CAST('damaged' AS BLOB) WHERE first = 0")
    history = History(tmp_path)
    assert not history.episode(1).whole
    assert history.frames(1, 0, SHAPE) is None
    assert history.frames(1, 40, SHAPE) is not None


def test_a_damaged_file_is_as_if_nothing_had_been_recorded(tmp_path):
    story = Story(1)
    writer = HistoryWriter(tmp_path, picture=SHAPE)
    story.tell(writer, 300)
    writer.close()
    content = database_file(tmp_path).read_bytes()
    for damaged in (b"", b"x" * 5000, content[:100], content[: len(content) // 2]):
        database_file(tmp_path).write_bytes(damaged)
        history = History(tmp_path)
        for number in range(1, 4):
            if number in history:
                history.frames(number, 0, SHAPE)
    database_file(tmp_path).write_bytes(b"x" * 5000)
    with pytest.raises(OSError, match="file is not a database"):
        HistoryWriter(tmp_path)


def test_frames_are_bounded_and_those_with_the_most_memories_stay(tmp_path):
    story = Story(1)
    limit = 60_000
    writer = HistoryWriter(tmp_path, picture=SHAPE, limit_gb=limit / 1e9)
    loved = {3, 4, 5}
    for _ in range(20):
        story.tell(writer, 300)
        if writer.full:
            memories = np.ones(story.begun + 1, np.int64)
            memories[list(loved)] = 1000
            writer.drop(memories)
        writer.flush()
        history = History(tmp_path)
        assert history.frames_bytes < limit * 1.1
    writer.close()
    assert limit / 2 < history.frames_bytes
    assert sum(len(steps) for steps in story.told.values()) == 6_000  # far more than there is room for
    check(history, story.told, frames=False)
    for number in loved:
        assert history.kept(number) == [(0, len(story.told[number]))]
    kept = [number for number in story.told if history.kept(number)]
    assert 5 < len(kept) < len(story.told) / 2
    for number in kept:  # wholly or in part, they are the right ones
        for first, end in history.kept(number):
            _, found = history.frames(number, first, SHAPE)
            assert found[0].tobytes() == story.told[number][first][-1]
            assert end <= len(story.told[number])


def test_a_full_disk_ends_the_history_and_not_the_run(tmp_path):
    story = Story(1)
    writer = HistoryWriter(tmp_path, picture=SHAPE)
    writer._database.execute("PRAGMA max_page_count = 20")  # a small disk
    story.tell(writer, 1000)
    writer.flush()
    assert "full" in str(writer.error)
    story.tell(writer, 400)  # to nobody
    writer.close()


def test_learning_waits_when_the_disk_is_slow(tmp_path, monkeypatch):
    """So that frames do not pile up in memory."""
    gate = threading.Event()
    write = HistoryWriter._write
    monkeypatch.setattr(HistoryWriter, "_write", lambda self, batch: (gate.wait(), write(self, batch)))
    story = Story(1)
    writer = HistoryWriter(tmp_path, picture=SHAPE)
    learning = threading.Thread(target=story.tell, args=(writer, 32 * 40))
    learning.start()
    wait_until(lambda: writer._queue.full() or not learning.is_alive(), "a full queue")
    assert learning.is_alive()
    gate.set()
    learning.join()
    writer.close()
    check(History(tmp_path), story.told)


class Lived(Callback):
    """Writes the history of an agent."""

    def __init__(self, writer: HistoryWriter) -> None:
        self.writer = writer
        self.seen: dict[int, list[float]] = {}

    def on_steps(self, agent: MFEC, steps: Steps) -> None:
        self.writer.add(steps)
        for number, seen in zip(steps.numbers, steps.observations, strict=True):
            self.seen.setdefault(number, []).append(float(seen[1]))


def test_an_agent_tells_what_it_saw_before_each_action(tmp_path):
    """On a walk, the observation before step t tells t, and the reward is the action."""
    writer = HistoryWriter(tmp_path)
    lived = Lived(writer)
    agent = MFEC(Walk(length=7), seed=0, capacity=50).learn(100, lived)
    writer.close()
    history = History(tmp_path)
    assert len(history) == agent.games_begun == 100 // 7 + 1
    for number, seen in lived.seen.items():
        assert seen == list(range(len(seen)))
        assert history.episode(number).rewards.tolist() == history.episode(number).actions.tolist()
        assert history.begun(number) == 7 * (number - 1)
