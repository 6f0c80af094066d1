"""What the page is told is true: step by step what the agent's own memory says, and frames that were really seen."""

from __future__ import annotations

import base64
import contextlib
import math
import shutil
import sqlite3
import zlib
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from rich.console import Console

from mfec import MFEC
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.envs import make_env
from mfec.errors import MfecError
from mfec.experiments.evaluate import evaluate_run
from mfec.experiments.train import train
from mfec.history import History
from mfec.history.database import database_file
from mfec.history.frame_codec import unpack_frames
from mfec.inspector.inspection import Inspection, NotThere, action_names
from mfec.inspector.past_episodes import _small
from mfec.run_directory import RunDirectory, RunDirectoryError

GAME = "qbert"
FRAMES = 4000
SETTINGS = MFECConfig(k=4, dim=16, capacity=2000, epsilon=0.1, gamma=0.97)


def trained(
    out: Path, env: str = GAME, *, frames: int = FRAMES, keep_frames: bool = False, **environment
) -> RunDirectory:
    quiet = Console(quiet=True)
    config = RunConfig(env, frames, agent=SETTINGS, environment=EnvConfig(**environment))
    return train(config, out, keep_frames=keep_frames, console=quiet)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return trained(tmp_path_factory.mktemp("kept"), keep_frames=True, max_frames=600)


@pytest.fixture(scope="module")
def played(kept: RunDirectory) -> Inspection:
    inspection = Inspection(kept, seed=5)
    inspection.play()
    inspection.finish(0)
    return inspection


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return trained(tmp_path_factory.mktemp("unharmed"), frames=2000, keep_frames=True, max_frames=800)


@pytest.fixture
def run(unharmed: RunDirectory, tmp_path: Path) -> RunDirectory:
    """A run with its frames, to be damaged."""
    shutil.copytree(unharmed.path, tmp_path / "run")
    return RunDirectory(tmp_path / "run")


def seen_in_game(inspection: Inspection, game: int = 0) -> np.ndarray:
    about = inspection.game(game)["observation"]
    chunks = range(-(-inspection.game(game)["steps"] // about["per_chunk"]))
    return np.concatenate([unpack_frames(inspection.observations(game, i), tuple(about["shape"])) for i in chunks])


# -- True to the memory -----------------------------------------------------------------------------------------------


def test_every_number_is_the_memory_s_own(played, kept):
    """Against `memory.estimate` and `memory.neighbours` of an agent that was loaded apart, for every step."""
    agent = MFEC.load(kept.checkpoint, env=GAME)
    observations, game = seen_in_game(played), played.game(0)
    assert len(observations) == game["steps"] > 100
    exact = taken = 0
    for step, observation in enumerate(observations):
        told = played.step(0, step)
        states, keys = agent.embedding(observation[None]), [observation.tobytes()]
        estimates = agent.memory.estimate(states, keys, mark_used=False)
        values = [math.inf if own["value"] is None else own["value"] for own in told["actions"]]
        assert values == estimates.values[0].tolist()
        assert [own["source"] == "exact" for own in told["actions"]] == estimates.exact[0].tolist()
        assert told["highest"] == np.flatnonzero(estimates.values[0] == estimates.values[0].max()).tolist()
        assert told["action"] in told["highest"] or told["explored"]
        for action, own in enumerate(told["actions"]):
            near = agent.memory.neighbours(states[0], action)
            behind = own["neighbours"]
            many = 1 if own["source"] == "exact" else len(near.values)
            assert [each["id"] for each in behind] == near.entry_ids[:many].tolist()
            assert [each["value"] for each in behind] == near.values[:many].tolist()
            assert [each["distance"] for each in behind] == near.distances[:many].tolist()
            assert [[each["episode"], each["frame"]] for each in behind] == near.origins[:many].tolist()
            assert [each["matched"] for each in behind] == near.matched[:many].tolist()
        exact += int(estimates.exact.sum())
        taken += bool(estimates.exact[0, told["action"]])
        figures = told["figures"]
        assert figures["exact_share"] == exact / ((step + 1) * agent.n_actions)
        assert figures["exact_chosen_share"] == taken / (step + 1)
        assert figures["used"] == sum(len(own["neighbours"]) for own in told["actions"])
        ages = [each["age"] for own in told["actions"] for each in own["neighbours"]]
        assert figures["age_median"] == np.median(ages)
        assert (figures["age_youngest"], figures["age_oldest"]) == (min(ages), max(ages))
        assert (told["step"], told["frame"]) == (step, 4 * step)
        assert (told["action"], told["reward"]) == (game["actions"][step], game["rewards"][step])
        assert told["score"] == sum(game["rewards"][:step])
        assert game["exact"][step] == estimates.exact[0, told["action"]]
        assert game["explored"][step] == told["explored"]
    assert 0 < sum(game["explored"]) < len(observations) / 3
    assert exact > 100


def test_a_zero_for_want_of_neighbours_is_told_as_such(tmp_path):
    """With more neighbours asked for than there are, every value that is not matched is 0, whatever is near."""
    agent = replace(SETTINGS, k=1000, few_neighbours="zero")
    config = RunConfig("CartPole-v1", 200, agent=agent)
    inspection = Inspection(train(config, tmp_path, console=Console(quiet=True)), seed=5, epsilon=1.0)  # a short game
    inspection.play()
    inspection.finish(0)
    told = [own for step in range(inspection.game(0)["steps"]) for own in inspection.step(0, step)["actions"]]
    assert {own["source"] for own in told} <= {"exact", "zero"}
    zeros = [own for own in told if own["source"] == "zero"]
    assert any(own["neighbours"] for own in zeros)
    assert {own["value"] for own in zeros} == {0.0}


@pytest.mark.parametrize("kernel", ["mean", "inverse"])
def test_each_memory_is_told_with_what_it_counts(tmp_path, kernel):
    config = RunConfig("CartPole-v1", 200, agent=replace(SETTINGS, kernel=kernel, few_neighbours="zero"))
    inspection = Inspection(train(config, tmp_path, console=Console(quiet=True)), seed=5, epsilon=1.0)  # a short game
    inspection.play()
    inspection.finish(0)
    assert inspection.run()["kernel"] == kernel
    told = [own for step in range(inspection.game(0)["steps"]) for own in inspection.step(0, step)["actions"]]
    assert {own["source"] for own in told} - {"exact"} == {"mean" if kernel == "mean" else "weighted_mean"}
    for own in told:
        weights, values = ([each[name] for each in own["neighbours"]] for name in ("weight", "value"))
        assert sum(weights) == pytest.approx(1.0)
        assert np.dot(weights, values) == pytest.approx(own["value"], rel=1e-5)
        assert weights == sorted(weights, reverse=True)
    assert (len({each["weight"] for own in told for each in own["neighbours"]}) <= 2) == (kernel == "mean")


def test_looking_does_not_change_the_memory(played, kept):
    ours, theirs = played.agent.memory.tensors(), MFEC.load(kept.checkpoint).memory.tensors()
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_pictures_are_what_the_environment_draws(played):
    env = make_env(GAME, EnvConfig(max_frames=600), render_mode="rgb_array")
    game = played.game(0)
    about = game["picture"]
    env.reset(seed=game["seed"])
    for step, action in enumerate(game["actions"][:60]):
        chunk, place = divmod(step, about["per_chunk"])
        pictures = unpack_frames(played.pictures(0, chunk), tuple(about["shape"]))
        assert np.array_equal(pictures[place], env.render())
        env.step(action)


def test_places_on_the_map_agree(played):
    """The place of a state is that of an exact match of it, and neighbours lie where the map would put them."""
    told = [played.step(0, step) for step in range(0, 100, 3)]
    matched = [
        (each["position"], own["neighbours"][0]["position"])
        for each in told
        for own in each["actions"]
        if own["source"] == "exact"
    ]
    assert len(matched) > 10
    assert all(here == there for here, there in matched)
    points = played.run()["map"]
    assert len(points["x"]) == len(points["y"]) == len(points["value"]) == min(4000, len(played.agent.memory))
    assert np.std(points["x"]) == pytest.approx(1.0, abs=0.1)
    assert abs(np.corrcoef(points["x"], points["y"])[0, 1]) < 0.1
    assert 1.0 >= points["share"][0] >= points["share"][1] > 0.0


def test_the_run_is_told(played, kept):
    run = played.run()
    assert run["actions"] == ["noop", "fire", "up", "right", "left", "down"]
    assert run["entries"] == played.agent.memory.sizes.tolist()
    assert (run["environment"], run["directory"]) == (GAME, str(kept.path))
    assert (run["frames"], run["k"], run["gamma"], run["epsilon"]) == (FRAMES, 4, 0.97, 0.1)
    assert (run["live"], run["frame_skip"], run["fps"]) == (True, 4, 15.0)
    assert "were kept" in run["frames_note"]


def test_a_memory_s_value_is_what_followed_in_its_own_episode(tmp_path):
    """Of every entry of a memory: the discounted return, from its frame to the end, of the episode that it names."""
    settings = replace(SETTINGS, episode="life")
    environment = EnvConfig(n_envs=2, max_frames=400)
    config = RunConfig(GAME, 2000, agent=settings, environment=environment)
    run = train(config, tmp_path, keep_frames=True, console=Console(quiet=True))
    inspection = Inspection(run)
    tensors = inspection.agent.memory.tensors()
    returns: dict[int, list[float]] = {}
    for number in set(tensors["origins"][:, 0].tolist()):
        past = inspection.past(number)
        followed, value = [], 0.0
        for step in reversed(range(past["steps"])):
            value = past["rewards"][step] + SETTINGS.gamma * (0.0 if step in past["ends"] else value)
            followed.append(value)
        returns[number] = followed[::-1]
    assert len(returns) > 3
    assert len(tensors["values"]) > 300
    for value, (number, frame) in zip(tensors["values"].tolist(), tensors["origins"].tolist(), strict=True):
        assert value == np.float32(returns[number][frame // 4])


# -- Frames of the past -----------------------------------------------------------------------------------------------


def frames_of(inspection: Inspection, episode: int) -> np.ndarray:
    about = inspection.past(episode)
    per_chunk, shape = about["picture"]["per_chunk"], tuple(about["picture"]["shape"])
    chunks = range(-(-about["steps"] // per_chunk))
    return np.concatenate([unpack_frames(inspection.past_frames(episode, chunk), shape) for chunk in chunks])


@pytest.mark.parametrize(
    ("env", "frames", "environment"),
    [
        ("qbert", 900, {"n_envs": 2, "max_frames": 300, "sticky_actions": 0.25, "frame_stack": 3}),
        ("labyrinth_forage", 3200, {"n_envs": 2}),
    ],
)
def test_frames_made_again_are_those_that_were_kept(tmp_path, env, frames, environment):
    """Bit for bit: a run that has kept its frames, and the same without them."""
    run = trained(tmp_path, env, frames=frames, keep_frames=True, **environment)
    kept, history = Inspection(run), History(run.history)
    assert len(history) >= 2
    by_keeping = {number: frames_of(kept, number) for number in range(1, len(history) + 1)}
    assert {kept.past(number)["source"] for number in by_keeping} == {"kept"}
    change_history(run, "DELETE FROM frames")
    without = Inspection(run)
    assert "not kept" in without.run()["frames_note"]
    for number, pictures in by_keeping.items():
        about = without.past(number)
        assert (about["source"], about["available"]) == ("recreated", [[0, len(pictures)]])
        assert np.array_equal(frames_of(without, number), pictures)
        assert len(pictures) == about["steps"] == len(about["actions"]) == len(about["rewards"])
    assert any(pictures.std() > 1.0 for pictures in by_keeping.values())


def test_thumbnails_are_the_remembered_frames(played):
    memories = {
        (each["episode"], each["frame"])
        for step in range(0, 100, 9)
        for own in played.step(0, step)["actions"]
        for each in own["neighbours"]
    }
    places = sorted(memories)[:50]
    told = played.thumbnails(places)
    assert told["found"] == [True] * len(places)
    frames = np.frombuffer(zlib.decompress(base64.b64decode(told["frames"])), np.uint8).reshape(-1, *told["shape"])
    for (episode, frame), picture in zip(places, frames, strict=True):
        assert np.array_equal(picture, frames_of(played, episode)[frame // 4])


def test_a_memory_s_frame_is_the_very_observation(played):
    """The thumbnail of an exact match is what the agent sees now."""
    observations = seen_in_game(played)
    checked = 0
    for step, observation in enumerate(observations[:80]):
        for own in played.step(0, step)["actions"]:
            if own["source"] == "exact":
                told = played.thumbnails([(own["neighbours"][0]["episode"], own["neighbours"][0]["frame"])])
                assert zlib.decompress(base64.b64decode(told["frames"])) == observation.tobytes()
                checked += 1
    assert checked > 20


def change_seed(run: RunDirectory) -> None:
    agent = MFEC.load(run.checkpoint)
    agent.seed = 99
    agent.save(run.checkpoint)
    run.config_file.write_text(run.config_file.read_text().replace("seed = 0", "seed = 99"))


def test_an_environment_that_does_not_repeat_itself_is_found_out(run):
    """The seed of a run is changed behind its back: its actions lead elsewhere, and no wrong frame is shown."""
    change_history(run, "DELETE FROM frames")
    change_seed(run)
    inspection = Inspection(run)
    about = inspection.past(1)
    assert (about["source"], about["picture"], about["available"]) == ("none", None, [])
    assert "does not repeat itself" in about["note"]
    told = inspection.thumbnails([(1, 0)])
    assert (told["found"], told["shape"], told["later"]) == ([False], None, [False])
    assert "does not repeat itself" in told["notes"][0]


def change_history(run: RunDirectory, command: str) -> None:
    """Run a command of SQL on its history."""
    with contextlib.closing(sqlite3.connect(database_file(run.history))) as database:
        database.execute(command)
        database.commit()


def test_damaged_frames_are_made_again_or_not_there(run):
    """No black frame stands for one that cannot be read."""
    right = frames_of(Inspection(run), 2)
    change_history(run, "UPDATE frames SET content = substr(content, 2) WHERE first % 64 = 0")
    assert np.array_equal(frames_of(Inspection(run), 2), right)
    change_seed(run)  # now no episode can be played again
    inspection = Inspection(run)
    readable, refused = 0, 0
    for chunk in range(-(-len(right) // 32)):
        try:
            found = unpack_frames(inspection.past_frames(2, chunk), (84, 84))
        except NotThere:
            refused += 1
        else:
            readable += 1
            assert np.array_equal(found, right[32 * chunk :][:32])
    assert readable > 0 < refused


def test_a_damaged_record_has_no_more_frames_than_steps(run):
    change_history(run, "UPDATE steps SET content = substr(content, 2) WHERE first >= 64")
    inspection = Inspection(run)
    for number in range(1, len(History(run.history)) + 1):
        about = inspection.past(number)
        assert all(0 <= begin < end <= about["steps"] for begin, end in about["available"])


def test_a_run_without_a_record_says_so(run):
    for file in run.history.iterdir():
        file.unlink()
    inspection = Inspection(run)
    inspection.play()
    inspection.finish(0)
    assert "no record of its episodes" in inspection.run()["frames_note"]
    with pytest.raises(NotThere, match="Episode 1 was not recorded"):
        inspection.past(1)
    assert inspection.thumbnails([(1, 0)])["notes"] == ["Episode 1 was not recorded."]
    assert inspection.step(0, 0)["figures"]["age_median"] is None
    assert inspection.step(0, 0)["actions"][0]["neighbours"][0]["age"] is None


def test_an_age_is_how_long_ago_the_run_was_there(played, kept):
    """With one environment, frames of the run before an episode are those of the episodes before it."""
    lengths = kept.episodes()["length_frames"]
    for step in (0, 40):
        for own in played.step(0, step)["actions"]:
            for each in own["neighbours"]:
                assert each["age"] == FRAMES - sum(lengths[: each["episode"] - 1]) - each["frame"]


# -- Numbers in place of pictures -------------------------------------------------------------------------------------


def test_observations_that_are_a_few_numbers(tmp_path):
    pytest.importorskip("pygame")
    run = trained(tmp_path, "CartPole-v1", frames=300)
    inspection = Inspection(run, epsilon=1.0)
    inspection.play()
    inspection.finish(0)
    game, told = inspection.game(0), inspection.step(0, 3)
    assert game["observation"] is None
    assert game["picture"]["shape"] == [400, 600, 3]
    assert len(told["numbers"]) == 4
    run_told = inspection.run()
    assert (run_told["numbers"], run_told["numbers_kept"], game["cards"]) == (4, True, "numbers")
    near = told["actions"][0]["neighbours"][0]
    gap = np.array(near["numbers"], np.float32) - np.array(told["numbers"], np.float32)
    assert np.linalg.norm(gap) == pytest.approx(near["distance"], rel=1e-4)
    about = inspection.past(near["episode"])
    assert about["numbers"][near["frame"]] == near["numbers"]
    assert len(about["numbers"]) == about["steps"]
    assert (about["source"], about["picture"]["shape"]) == ("recreated", [133, 200, 3])
    drawn = frames_of(inspection, near["episode"])[0]
    assert (drawn[:, 5].min(axis=1) < 200).sum() == 1  # the track, a line of one pixel in 400, can be seen


def test_pictures_are_drawn_one_by_one_as_they_are_all_at_once(tmp_path):
    """Whatever is asked for first: an episode is played again for some of its pictures only."""
    pytest.importorskip("pygame")
    run = trained(tmp_path, "CartPole-v1", frames=120)
    whole = frames_of(Inspection(run), 2)
    inspection = Inspection(run)
    assert sorted(inspection.draw_past(2, [7, 3, 10**6])) == [3, 7]
    assert inspection.thumbnails([(2, 9), (2, 3), (2, 8)])["found"] == [True, True, True]
    for step, picture in inspection.draw_past(2, range(len(whole))).items():
        assert np.array_equal(picture, whole[step])


def test_a_picture_is_made_small_by_the_mean_of_its_squares():
    picture = np.random.default_rng(0).integers(0, 256, (400, 603, 3), dtype=np.uint8)
    squares = picture[:399, :603].reshape(133, 3, 201, 3, 3)
    assert np.array_equal(_small(picture), squares.sum(axis=(1, 3)) // 9)
    assert np.array_equal(_small(picture[:160, :200]), picture[:160, :200])


@pytest.mark.parametrize(("size", "embedding", "cards"), [(40, "identity", "numbers"), (10_000, "auto", "frames")])
def test_of_many_numbers_the_first_are_shown(tmp_path, size, embedding, cards):
    register_vector(size)
    config = RunConfig("Vector-v0", 60, agent=replace(SETTINGS, embedding=embedding))
    inspection = Inspection(train(config, tmp_path, console=Console(quiet=True)), epsilon=0.0)
    inspection.finish(inspection.play())
    run, game, told = inspection.run(), inspection.game(0), inspection.step(0, 2)
    assert (run["numbers"], game["cards"], game["picture"]) == (size, cards, None)
    shown = min(size, run["shown_numbers"])
    assert told["numbers"] == pytest.approx(np.arange(shown) / 3 + 2, rel=1e-5)
    assert told["numbers"][1] == 2.33333  # in few digits
    for action in told["actions"]:
        for near in action["neighbours"]:
            assert (near["numbers"] is None) == (cards == "frames")
            assert near["numbers"] is None or len(near["numbers"]) == shown
    assert len(inspection.past(1)["numbers"][0]) == shown


def test_numbers_that_are_not_finite_end_a_game_with_a_sentence(tmp_path):
    """In training they are refused; here the environment has changed since."""
    register_vector(3)
    run = train(RunConfig("Vector-v0", 60, agent=SETTINGS), tmp_path, console=Console(quiet=True))
    for wrong in (np.nan, np.inf):
        register_vector(3, wrong)
        inspection = Inspection(run)
        with pytest.raises(MfecError, match=r"could not be played on: .*not finite"):
            inspection.finish(inspection.play())
        assert inspection.past(1)["numbers"] is None


def register_vector(*arguments) -> None:
    gymnasium.registry.pop("Vector-v0", None)
    gymnasium.register("Vector-v0", lambda **_: Vector(*arguments))


class Vector(gymnasium.Env):
    """So many numbers that grow from step to step, or from the fifth on one that is none."""

    def __init__(self, size: int, wrong: float | None = None) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.wrong = wrong

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self._observe(), {}

    def step(self, action):
        self.at += 1
        return self._observe(), float(action), self.at == 10, False, {}

    def _observe(self):
        numbers = np.arange(self.observation_space.shape[0], dtype=np.float32) / 3 + self.at
        if self.wrong is not None and self.at > 5:
            numbers[0] = self.wrong
        return numbers


# -- What is not there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [
    lambda i: i.game(1), lambda i: i.game(-1), lambda i: i.step(0, 10**6), lambda i: i.step(0, -1),
    lambda i: i.pictures(0, 10**6), lambda i: i.observations(0, 999), lambda i: i.past(0), lambda i: i.past(10**6),
    lambda i: i.past_frames(1, 999), lambda i: i.past_frames(-3, 0),
])  # fmt: skip
def test_what_is_not_there_is_a_sentence(played, ask):
    with pytest.raises(NotThere, match=r"\.$"):
        ask(played)


def test_a_run_that_cannot_be_inspected_is_a_sentence(tmp_path, kept):
    with pytest.raises(RunDirectoryError, match="no run directory"):
        Inspection(RunDirectory(tmp_path))
    empty = RunDirectory(tmp_path / "empty")
    empty.create(RunConfig(GAME, 1000))
    with pytest.raises(RunDirectoryError, match="no checkpoint yet"):
        Inspection(empty)
    other = RunDirectory(tmp_path / "dqn")
    other.create(RunConfig(GAME, 1000, algorithm="dqn"))
    with pytest.raises(RunDirectoryError, match="DQN, which has no memories"):
        Inspection(other)
    with pytest.raises(ValueError, match="epsilon"):
        Inspection(kept, epsilon=1.5)
    with pytest.raises(ValueError, match="seed"):
        Inspection(kept, seed=-1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["CartPole-v1", "--keep-frames"], "shows no pictures"),
        (["qbert", "--keep-frames", "--algorithm", "dqn"], "DQN has none"),
        (["qbert", "--keep-frames", "--frames-limit-gb", "0"], "above 0 gigabytes"),
    ],
)
def test_frames_that_cannot_be_kept_are_refused_before_a_run_begins(tmp_path, capsys, arguments, said):
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_names_of_actions():
    assert action_names(make_env("labyrinth_forage"), 8, 0)[4] == "move forward"
    assert action_names(make_env("frostbite"), 18, 0)[-2:] == ["down right fire", "down left fire"]
    assert action_names(make_env("FrozenLake-v1"), 4, 0) == ["action 0", "action 1", "action 2", "action 3"]


def test_games_are_played_one_after_the_other(kept):
    inspection = Inspection(kept, seed=5)
    assert [inspection.play(), inspection.play()] == [0, 1]
    inspection.finish(1)
    first, second = inspection.game(0), inspection.game(1)
    assert first["done"]
    assert second["done"]
    assert first["seed"] != second["seed"]
    scores = evaluate_run(kept, episodes=2, seed=5)[0].scores
    assert [first["score"], second["score"]] == scores


def test_closing_ends_a_game_at_once(kept):
    inspection = Inspection(kept)
    inspection.play()
    inspection.close()
    assert inspection.game(0)["steps"] < 500
