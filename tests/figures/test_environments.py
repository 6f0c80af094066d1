"""The first picture of any environment that has one, beside what the agent sees."""

from __future__ import annotations

from typing import Any

import gymnasium
import matplotlib.image
import numpy as np
import pytest
from gymnasium import spaces

from mfec.envs import make_atari
from mfec.figures import environments
from mfec.figures.environments import NoPictureError, draw_environment


class Dots(gymnasium.Env[Any, Any]):
    """Shows random dots; `observes` says what the agent sees of them."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012
    action_space = spaces.Discrete(2)

    def __init__(self, observes: tuple[int, ...], renders: Any = (20, 30, 3), render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, observes, np.uint8)
        self._renders = renders

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._drawn = self.np_random.integers(0, 256, self._renders, np.uint8)
        return self.np_random.integers(0, 256, self.observation_space.shape, np.uint8), {}

    def render(self) -> Any:
        if self._renders == (1,):
            raise gymnasium.error.DependencyNotInstalled("pygame is not installed")
        return self._drawn


class Blind(Dots):
    metadata = {"render_modes": ["ansi"], "render_fps": 15}  # noqa: RUF012


@pytest.fixture
def register():
    """Registers an environment for a test; returns its id."""
    names = []

    def under(env: type[Dots], **settings: Any) -> str:
        names.append(f"Shown{len(names)}-v0")
        gymnasium.register(names[-1], env, kwargs=settings, disable_env_checker=True)
        return names[-1]

    yield under
    for name in names:
        del gymnasium.registry[name]


@pytest.fixture
def shown(monkeypatch) -> list[tuple[str, np.ndarray]]:
    """Titles and pictures, as they are drawn."""
    pictures = []
    show = environments._show
    monkeypatch.setattr(
        environments, "_show", lambda axes, array, title: (pictures.append((title, array)), show(axes, array, title))
    )
    return pictures


def test_an_atari_game_beside_what_the_agent_sees(tmp_path, shown):
    out = draw_environment("qbert", tmp_path / "qbert.png", seed=3)
    assert matplotlib.image.imread(out).std() > 0.1
    game = make_atari("qbert", render_mode="rgb_array")
    observation, _ = game.reset(seed=3)
    (_, screen), (title, seen) = shown
    assert np.array_equal(screen, game.render())
    assert np.array_equal(seen, observation)
    assert title == "what the agent sees: 84 x 84"


@pytest.mark.parametrize(("observes", "seen"), [
    ((8, 9), (8, 9)), ((8, 9, 3), (8, 9, 3)), ((4, 8, 9), (8, 9)),
], ids=["grey", "colours", "several frames"])  # fmt: skip
def test_observations_that_are_pictures_are_shown(register, tmp_path, shown, observes, seen):
    name = register(Dots, observes=observes)
    draw_environment(name, tmp_path / "dots.png", seed=1)
    env = gymnasium.make(name, render_mode="rgb_array")
    observation, _ = env.reset(seed=1)
    assert [array.shape for _, array in shown] == [(20, 30, 3), seen]
    assert np.array_equal(shown[0][1], env.render())
    assert np.array_equal(shown[1][1], observation[-1] if len(observes) == 3 and observes[0] == 4 else observation)


def test_other_observations_are_not(register, tmp_path, shown):
    draw_environment(register(Dots, observes=(128,)), tmp_path / "dots.png")
    assert [title for title, _ in shown] == ["what a person sees"]


@pytest.mark.filterwarnings("error")
def test_an_environment_without_pictures_is_refused(register, tmp_path):
    name = register(Blind, observes=(8, 9))
    with pytest.raises(NoPictureError, match=f"{name} has no pictures: it does not render to `rgb_array`"):
        draw_environment(name, tmp_path / "blind.png")
    with pytest.raises(NoPictureError, match=r"has no pictures: it renders uint8 \(5,\)"):
        draw_environment(register(Dots, observes=(8, 9), renders=(5,)), tmp_path / "blind.png")
    with pytest.raises(NoPictureError, match="cannot be drawn: pygame is not installed"):
        draw_environment(register(Dots, observes=(8, 9), renders=(1,)), tmp_path / "blind.png")
    assert not list(tmp_path.iterdir())


def test_a_level_is_drawn_with_its_map_by_either_of_its_names(tmp_path):
    one, other = (
        draw_environment(name, tmp_path / f"{number}.png", seed=1)
        for number, name in enumerate(("labyrinth_forage", "mfec/Labyrinth-Forage-v0"))
    )
    assert np.array_equal(matplotlib.image.imread(one), matplotlib.image.imread(other))


def test_a_negative_seed_is_refused(tmp_path):
    for name in ("qbert", "labyrinth_forage"):
        with pytest.raises(ValueError, match="a seed must not be negative, and -1 is"):
            draw_environment(name, tmp_path / "shown.png", seed=-1)
