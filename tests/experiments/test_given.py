"""Environments as a program has them, in the words of a run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RescaleObservation, TimeLimit
from hypothesis import given
from hypothesis import strategies as st

from mfec.config import EnvConfig
from mfec.envs import make_env
from mfec.experiments.given import GivenEnv, given_env, import_name, word

from ..playing import Pictures, Walk

MODULE = """
import gymnasium

class Lake:
    @staticmethod
    def frozen(**keywords):
        return gymnasium.make("FrozenLake-v1", **keywords)

def lake():
    return Lake.frozen()
"""


class Mute(gymnasium.Wrapper):
    """A wrapper that does not record its arguments."""


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    """Functions that a test registers are known to it alone."""
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def length_of(name: str, **keywords: Any) -> int:
    """Of the walk that is made by that name."""
    words = tuple(f"{keyword}={value}" for keyword, value in keywords.items())
    made = make_env(name, EnvConfig(env_kwargs=words)).unwrapped
    assert isinstance(made, Walk)
    return made.length


# -- Functions --------------------------------------------------------------------------------------------------------


def test_a_function_that_nobody_can_import_is_known_to_gymnasium_by_its_name():
    def walk(length=7):
        return Walk(length=length)

    assert given_env(walk) == GivenEnv("function/walk")
    assert length_of("function/walk", length=3) == 3
    assert given_env(partial(walk, length=5)).name == "function/walk"
    assert length_of("function/walk") == 5
    assert given_env(Walk, name="function/mine").name == "function/mine"
    assert isinstance(gymnasium.make("function/mine").unwrapped, Walk)


def test_a_name_is_that_of_the_latest_function_and_another_one_is_a_warning():
    def of(length):
        def walk():
            return Walk(length=length)

        return walk

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in (3, 4):  # a cell of a notebook that is run again
            given_env(of(length))
    assert length_of("function/walk") == 4

    def walk():
        return Walk(length=9)

    with pytest.warns(UserWarning, match="function/walk is another function from now on"):
        given_env(walk)
    assert length_of("function/walk") == 9


def test_what_a_module_has_is_named_after_it(tmp_path, monkeypatch):
    (tmp_path / "lakes_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import lakes_of_a_test  # type: ignore[import-not-found]

    assert given_env(lakes_of_a_test.lake).name == "lakes_of_a_test:lake"
    assert given_env(lakes_of_a_test.Lake.frozen).name == "lakes_of_a_test:Lake.frozen"
    lakes_of_a_test.lake.__module__ = "__main__"  # as in the program that was started
    assert given_env(lakes_of_a_test.lake).name == "function/lake"
    assert import_name(partial(lakes_of_a_test.lake)) is None


# -- Environments that are there --------------------------------------------------------------------------------------


def test_what_gymnasium_made_is_made_again_from_its_words():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20, render_mode="rgb_array")
    assert given_env(env) == GivenEnv("FrozenLake-v1", ("is_slippery=false", "max_episode_steps=20"))
    assert given_env(gymnasium.make("CartPole-v1")) == GivenEnv("CartPole-v1")
    lake = gymnasium.make("FrozenLake-v1", desc=np.array([list("SF"), list("FG")]))
    assert given_env(lake).env_kwargs == ('desc=[["S", "F"], ["F", "G"]]',)
    flat = gymnasium.wrappers.FlattenObservation(gymnasium.make("CartPole-v1"))
    assert given_env(flat).wrappers == (f"{type(flat).__module__}:FlattenObservation",)


@pytest.mark.parametrize("make", [
    lambda: RescaleObservation(gymnasium.make("Acrobot-v1"), np.float32(0), np.float32(1)),
    lambda: gymnasium.make("FrozenLake-v1", desc=np.asarray(["SF", "FG"], dtype="c")),
    lambda: TimeLimit(gymnasium.make("CartPole-v1"), 5),
], ids=["wrapper", "keyword", "limit"])  # fmt: skip
def test_what_no_words_stand_for_is_made_again_by_a_function(make):
    env = make()
    words = given_env(env)
    again = make_env(words.name, EnvConfig(**words.settings))
    assert again.observation_space == env.observation_space
    played = [[one.reset(seed=1)[0], *(one.step(1)[:4] for _ in range(5))] for one in (env, again)]
    assert str(played[0]) == str(played[1])


def test_a_package_that_must_be_imported_is_part_of_the_name():
    pytest.importorskip("minigrid")
    env = gymnasium.make("minigrid:MiniGrid-Empty-5x5-v0")
    assert given_env(env).name == "minigrid:MiniGrid-Empty-5x5-v0"


@pytest.mark.parametrize(("env", "error", "why"), [
    (Pictures(), ValueError, "this Pictures was not made by gymnasium.make, so .*; give a function"),
    (Mute(gymnasium.make("CartPole-v1")), ValueError, "the wrapper Mute does not say how it was made; give a function"),
    (gymnasium.make_vec("CartPole-v1", 2), TypeError, "give one environment, by its name or a function, and n_envs"),
    (3, TypeError, "an environment is a name, a function or class that makes one, or one itself, not 3"),
], ids=["no spec", "a wrapper without", "vector", "number"])  # fmt: skip
def test_what_cannot_be_made_again_is_refused(env, error, why):
    with pytest.raises(error, match=why):
        given_env(env)


# -- Keywords and wrappers --------------------------------------------------------------------------------------------

SIMPLE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)


@given(SIMPLE | st.lists(st.integers() | st.text(max_size=3), max_size=3))
def test_a_keyword_is_read_as_what_it_was(value):
    assert EnvConfig(env_kwargs=(f"x={word(value, 'x')}",)).keywords() == {"x": value}


def test_a_keyword_that_is_no_text_is_refused_by_name():
    with pytest.raises(
        TypeError, match=r"grid of env_kwargs must be a number, a word or a list of them, not .*function"
    ):
        given_env("FrozenLake-v1", env_kwargs={"grid": object()})


def test_wrappers_are_classes_of_modules_or_their_names():
    wrappers = [RescaleObservation, "package.module:Wrapper"]
    name = "gymnasium.wrappers.transform_observation:RescaleObservation"
    assert given_env("CartPole-v1", wrappers=wrappers).wrappers == (name, "package.module:Wrapper")

    class Mine(gymnasium.Wrapper):
        pass

    with pytest.raises(
        ValueError, match="the wrapper 'Mine' is not in a module that other programs can import; give a"
    ):
        given_env("CartPole-v1", wrappers=[Mine])
