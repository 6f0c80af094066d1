"""Frames on disk: collected once, used again, added to after a stop, and refused where they are others or damaged."""

from __future__ import annotations

import io
import json
import shutil
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from rich.console import Console

from mfec.callbacks import Stopped
from mfec.config import EnvConfig
from mfec.envs.random_play import RandomPlay
from mfec.experiments import frames as frames_module
from mfec.experiments.frames import FramesError, collect_frames, delete_frames, held_out_frames

from .. import dots  # noqa: F401 (it registers Dots-v0)

pytestmark = pytest.mark.usefixtures("small")
N = 200  # not a multiple of the environments


def collect(
    directory: Path,
    *,
    env: str = "Dots-v0",
    environment: EnvConfig | None = None,
    n: int = N,
    seed: int = 0,
    stop: list[int] | None = None,
    said: io.StringIO | None = None,
) -> np.ndarray:
    console = Console(file=said or io.StringIO())
    stop = [] if stop is None else stop
    return collect_frames(env, environment or EnvConfig(), n, seed, directory, console=console, stop=stop)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, small: None) -> Path:
    """Frames of Dots-v0 that were collected without a stop."""
    directory = tmp_path_factory.mktemp("frames")
    collect(directory)
    return directory


@contextmanager
def looks(n: int, then: BaseException | list[int]) -> Iterator[None]:
    """After so many looks the random policy is interrupted, or asked to stop."""
    left, look = n, RandomPlay.look

    def count(play: RandomPlay) -> np.ndarray:
        nonlocal left
        left -= 1
        if left < 0 and isinstance(then, BaseException):
            raise then
        if left == 0 and isinstance(then, list):
            then.append(15)
        return look(play)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RandomPlay, "look", count)
        yield


# -- Collecting -------------------------------------------------------------------------------------------------------


def test_what_is_collected_is_what_a_random_policy_sees(whole):
    play = RandomPlay("Dots-v0", EnvConfig(), np.random.SeedSequence([0, frames_module.TRAINING]))
    seen = np.concatenate([play.look() for _ in range(70)])[:N]
    stored = np.load(whole / "frames.npy")
    assert stored.dtype == np.uint8
    assert np.array_equal(stored, seen)


@pytest.mark.parametrize(("environment", "shape"), [
    (EnvConfig(), (62, 84, 84)), (EnvConfig(frame_stack=2), (15, 2, 84, 84)),
])  # fmt: skip
def test_as_many_frames_of_an_atari_game_are_played_as_were_asked_for(tmp_path, environment, shape):
    stored = collect(tmp_path, env="qbert", environment=environment, n=62)
    assert stored.shape == shape
    assert len({picture.tobytes() for picture in stored}) > 10


def test_frames_are_used_again_without_playing(whole, tmp_path):
    said = io.StringIO()
    with looks(0, AssertionError("it plays")):
        stored = collect(whole, said=said)
    assert np.array_equal(stored, np.load(whole / "frames.npy"))
    assert said.getvalue() == f"frames: {whole / 'frames.npy'}, collected before\n"
    with pytest.raises(ValueError, match="read-only"):
        stored[0] = 0


def test_deleted_frames_are_collected_again(whole, tmp_path):
    collect(tmp_path)
    delete_frames(tmp_path)
    assert list(tmp_path.iterdir()) == []
    delete_frames(tmp_path)
    collect(tmp_path)
    assert (tmp_path / "frames.npy").read_bytes() == (whole / "frames.npy").read_bytes()


# -- Stop and go ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moments", [[1], [30], [5, 40, 3]])
def test_asked_to_stop_collecting_goes_on_as_if_it_had_not(whole, tmp_path, moments):
    for moment in moments:
        stop: list[int] = []
        with looks(moment, stop), pytest.raises(Stopped):
            collect(tmp_path, stop=stop)
    assert 0 < json.loads((tmp_path / "frames.json").read_text())["done"] < N
    collect(tmp_path)
    assert (tmp_path / "frames.npy").read_bytes() == (whole / "frames.npy").read_bytes()


@pytest.mark.parametrize("save_seconds", [0.0, 1000.0], ids=["after it saved", "before it saved"])
def test_killed_while_collecting_it_goes_on_as_if_it_had_not_been(whole, tmp_path, monkeypatch, save_seconds):
    monkeypatch.setattr(frames_module, "SAVE_SECONDS", save_seconds)
    with looks(20, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        collect(tmp_path)
    assert (tmp_path / "frames.json").exists() == (save_seconds == 0.0)
    stored = np.lib.format.open_memmap(tmp_path / "frames.npy", mode="r+")
    stored[60:] = 7  # what came after the last save does not matter
    stored.flush()
    collect(tmp_path)
    assert (tmp_path / "frames.npy").read_bytes() == (whole / "frames.npy").read_bytes()


# -- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("settings", "message"), [
    ({"seed": 1}, r"holds frames of seed = 0, not of 1$"),
    ({"n": 201}, r"holds frames of shape = \[200, 60, 60\], not of \[201, 60, 60\]$"),
    ({"env": "qbert"}, r"holds frames of env = Dots-v0, not of qbert$"),
])  # fmt: skip
def test_other_frames_are_refused(whole, settings, message):
    with looks(0, AssertionError("it plays")), pytest.raises(FramesError, match=message):
        collect(whole, **settings)


def test_frames_from_before_there_were_keywords_and_wrappers_are_those_without_any(whole, tmp_path):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    known = json.loads((tmp_path / "frames.json").read_text())
    del known["about"]["environment"]["env_kwargs"], known["about"]["environment"]["wrappers"]
    (tmp_path / "frames.json").write_text(json.dumps(known))
    with looks(0, AssertionError("it plays")):
        collect(tmp_path)
        with pytest.raises(FramesError, match=r"holds frames of wrappers = \[\], not of \['gymnasium"):
            collect(tmp_path, environment=EnvConfig(wrappers=("gymnasium.wrappers:OrderEnforcing",)))


def test_frames_of_other_settings_of_a_game_are_refused(tmp_path):
    collect(tmp_path, env="qbert", n=3)
    with pytest.raises(FramesError, match=r"holds frames of sticky_actions = 0.0, not of 0.25$"):
        collect(tmp_path, env="qbert", n=3, environment=EnvConfig(sticky_actions=0.25))


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def other_numbers(file: Path) -> None:
    np.save(file, np.zeros((N, 60, 60), np.float32))


@pytest.mark.parametrize(("damage", "message"), [
    (Path.unlink, r"frames.npy is missing: remove frames.json to collect the frames again$"),
    (half, r"frames.npy cannot be read: "),
    (other_numbers, r"frames.npy holds float32 \(200, 60, 60\), not uint8 \(200, 60, 60\)$"),
], ids=["missing", "truncated", "other"])  # fmt: skip
@pytest.mark.parametrize("complete", [True, False], ids=["complete", "stopped"])
def test_frames_that_were_damaged_are_refused(whole, tmp_path, complete, damage, message):
    stop: list[int] = []
    if complete:
        shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    else:
        with looks(9, stop), pytest.raises(Stopped):
            collect(tmp_path, stop=stop)
    damage(tmp_path / "frames.npy")
    with pytest.raises(FramesError, match=message):
        collect(tmp_path)


@pytest.mark.parametrize("change", [
    lambda known: "",
    lambda known: json.dumps(known)[:-5],
    lambda known: "[]",
    lambda known: json.dumps({**known, "about": 3}),
    lambda known: json.dumps({**known, "done": N + 1}),
    lambda known: json.dumps({**known, "done": "many"}),
    lambda known: json.dumps({**known, "play": None}),
    lambda known: json.dumps({**known, "play": {**known["play"], "history": {"games": [1]}}}),
    lambda known: json.dumps({name: value for name, value in known.items() if name != "play"}),
])  # fmt: skip
def test_a_damaged_note_of_what_was_collected_is_refused(tmp_path, change):
    stop: list[int] = []
    with looks(9, stop), pytest.raises(Stopped):
        collect(tmp_path, stop=stop)
    file = tmp_path / "frames.json"
    file.write_text(change(json.loads(file.read_text())))
    with pytest.raises(FramesError, match=r"frames.json cannot be read: "):
        collect(tmp_path)


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
    with pytest.raises(FramesError, match=r"^the frames take 720 kB, and .* has 1 kB free$"):
        collect(tmp_path / "new")
    assert not (tmp_path / "new").exists()


class Stamps(gymnasium.Env):
    """Pictures that are too small."""

    observation_space = spaces.Box(0, 255, (20, 30, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return np.zeros((20, 30, 3), np.uint8), {}


gymnasium.register("Stamps-v0", entry_point=Stamps)


@pytest.mark.parametrize(("env", "message"), [
    ("CartPole-v1", r"^a VAE is trained on pictures of bytes, and these observations are Box\(.*float32\)$"),
    ("FrozenLake-v1", r"^a VAE is trained on pictures of bytes, and these observations are Discrete\(16\)$"),
    ("Stamps-v0", r"^a VAE needs pictures of at least 52x52 pixels, .*, not observations of shape \(20, 30, 3\)$"),
])  # fmt: skip
def test_an_environment_without_pictures_is_refused(tmp_path, env, message):
    with pytest.raises(ValueError, match=message):
        collect(tmp_path / "new", env=env)
    assert not (tmp_path / "new").exists()


# -- Held-out frames --------------------------------------------------------------------------------------------------


def test_held_out_frames_are_not_those_of_the_training_and_can_be_made_again(whole):
    held_out = held_out_frames("Dots-v0", EnvConfig(), 50, 0)
    assert held_out.shape == (50, 60, 60)
    assert np.array_equal(held_out, held_out_frames("Dots-v0", EnvConfig(), 50, 0))
    assert np.array_equal(held_out[:20], held_out_frames("Dots-v0", EnvConfig(), 20, 0))
    assert not np.array_equal(held_out, held_out_frames("Dots-v0", EnvConfig(), 50, 1))
    training = {picture.tobytes() for picture in np.load(whole / "frames.npy")}
    assert len(training & {picture.tobytes() for picture in held_out}) < 10
    assert len(set(held_out[:, -1, -1].tolist())) > 10  # from all parts of games
