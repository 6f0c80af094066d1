"""Pictures of environments: what a person sees of one, and beside it what the agent sees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mfec.envs.labyrinth import Labyrinth
from mfec.envs.names import make_env
from mfec.errors import MfecError
from mfec.figures.labyrinth import draw_level
from mfec.figures.pictures import check_kind, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class NoPictureError(MfecError):
    """An environment that cannot be drawn."""


def draw_environment(name: str, out: Path, *, seed: int = 0) -> Path:
    """Draw a Labyrinth level with its map, or the first picture of any other environment that has pictures."""
    check_kind(out)
    if seed < 0:
        raise ValueError(f"a seed must not be negative, and {seed} is")
    plain = make_env(name)  # Gymnasium only warns where an environment has no such pictures as it is asked for
    plain.close()
    if isinstance(plain, Labyrinth):
        return draw_level(plain.level.name, out, seed=seed)
    if "rgb_array" not in plain.metadata.get("render_modes", []):
        raise NoPictureError(f"{name} has no pictures: it does not render to `rgb_array`")
    shown, observation = _first_picture(name, seed)
    pictures = {"what a person sees": shown}
    if _is_picture(observation):
        # Of several frames the newest; colours, if any, come last.
        seen = observation if observation.ndim == 2 or observation.shape[-1] == 3 else observation[-1]
        pictures[f"what the agent sees: {' x '.join(map(str, observation.shape))}"] = seen
    figure = new_figure(5.0 * len(pictures), 5.2)
    figure.suptitle(name, fontsize=14, fontweight="bold")
    for axes, (title, picture) in zip(
        figure.subplots(1, len(pictures), squeeze=False)[0], pictures.items(), strict=True
    ):
        _show(axes, picture, title)
    return save_figure(figure, out)


def _first_picture(name: str, seed: int) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """The first picture of an episode, and its first observation."""
    env = make_env(name, render_mode="rgb_array")
    assert isinstance(env, gymnasium.Env)
    try:
        observation, _ = env.reset(seed=seed)
        picture = np.asarray(env.render())
    except gymnasium.error.Error as error:  # for example of a missing pygame
        raise NoPictureError(f"{name} cannot be drawn: {error}") from None
    finally:
        env.close()
    if not _is_picture(picture):
        raise NoPictureError(f"{name} has no pictures: it renders {picture.dtype} {picture.shape}")
    return picture, np.asarray(observation)


def _is_picture(array: NDArray[Any]) -> bool:
    """Whether this is a picture, grey or in colours, or several frames; bytes in a row are not."""
    return array.dtype == np.uint8 and array.ndim in (2, 3)


def _show(axes: Axes, picture: NDArray[np.uint8], title: str) -> None:
    axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_title(title, fontsize=10)
    axes.set_axis_off()
