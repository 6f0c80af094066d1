"""Videos: files that ffmpeg itself decodes to the pictures that went in."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest

from mfec.envs import make_env
from mfec.errors import MfecError
from mfec.evaluation.video import Video


class Colours(gymnasium.Env):
    """An environment that says how fast it is filmed."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self.metadata = metadata


def decode(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """What ffmpeg makes of a file: its description, and all pictures (height, width, 3)."""
    frames = imageio_ffmpeg.read_frames(str(path))
    about = next(frames)
    width, height = about["size"]
    return about, [np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames]


def test_a_film_holds_its_pictures_in_order(tmp_path):
    video = Video(tmp_path / "new" / "film.mp4", Colours({"render_fps": 10}))
    for brightness in range(0, 250, 25):
        video.add(np.full((400, 600, 3), brightness, np.uint8))
    video.close()
    about, pictures = decode(tmp_path / "new" / "film.mp4")
    assert about["size"] == (600, 400)
    assert about["fps"] == 10
    assert len(pictures) == 10
    assert [int(picture.mean()) for picture in pictures] == pytest.approx(range(0, 250, 25), abs=5)


def test_small_pictures_are_enlarged_by_a_whole_factor_and_sides_are_even(tmp_path):
    picture = np.zeros((33, 47, 3), np.uint8)
    picture[:, 24:] = 255
    video = Video(tmp_path / "film.mp4", Colours({}))
    for _ in range(3):
        video.add(picture)
    video.close()
    about, pictures = decode(tmp_path / "film.mp4")
    assert about["size"] == (47 * 13 - 1, 33 * 13 - 1)
    assert about["fps"] == 30
    middle = pictures[1][200, :, 0].astype(int)
    assert middle[: 24 * 13 - 8].max() < 40
    assert middle[24 * 13 + 8 :].min() > 215


def test_a_game_is_filmed_at_the_speed_of_play(tmp_path):
    env = make_env("qbert", render_mode="rgb_array")
    env.reset(seed=0)
    video = Video(tmp_path / "film.mp4", env)
    for _ in range(4):
        env.step(0)
        video.add(env.render())
    video.close()
    about, pictures = decode(tmp_path / "film.mp4")
    assert about["size"] == (480, 630)
    assert about["fps"] == 15  # 60 frames a second, 4 to a step
    assert len(pictures) == 4
    shown = env.render().repeat(3, axis=0).repeat(3, axis=1)
    assert np.abs(pictures[-1].astype(int) - shown).mean() < 10


@pytest.mark.parametrize("name", ["film.avi", "film", "film.mp4.txt"])
def test_another_ending_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"a video is an \.mp4 file, not "):
        Video(tmp_path / name, Colours({}))


@pytest.mark.parametrize("picture", [np.zeros((5, 5), np.uint8), np.zeros((5, 5, 4), np.uint8), np.zeros(3, np.uint8)])
def test_what_is_no_colour_picture_is_refused(tmp_path, picture):
    with pytest.raises(ValueError, match="renders no colour pictures"):
        Video(tmp_path / "film.mp4", Colours({})).add(picture)
    assert list(tmp_path.iterdir()) == []


def test_a_film_without_pictures_is_no_file(tmp_path):
    Video(tmp_path / "film.mp4", Colours({})).close()
    assert list(tmp_path.iterdir()) == []


# -- Films that are not finished --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_film_that_is_stopped_leaves_the_one_before_it(tmp_path, error):
    film = tmp_path / "film.mp4"
    film.write_text("before")
    with pytest.raises(error), Video(film, Colours({})) as video:  # noqa: PT012
        for _ in range(60):
            video.add(np.zeros((400, 600, 3), np.uint8))
        raise error
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]
    assert film.read_text() == "before"


def test_a_film_that_is_finished_stays_whatever_comes_after_it(tmp_path):
    with pytest.raises(KeyboardInterrupt), Video(tmp_path / "film.mp4", Colours({})) as video:  # noqa: PT012
        video.add(np.zeros((400, 600, 3), np.uint8))
        video.close()
        raise KeyboardInterrupt
    assert len(decode(tmp_path / "film.mp4")[1]) == 1


@pytest.mark.parametrize("limit", [0, 10_000, 60_000])
def test_on_a_full_disk_there_is_no_film_and_a_sentence_without_the_encoders_command(tmp_path, capfd, limit):
    """ffmpeg stops at once, on the way, or when it finishes the file, which it does not say."""
    noise = np.random.default_rng(0).integers(0, 256, (3, 400, 600, 3), dtype=np.uint8)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        with pytest.raises(MfecError) as error, Video(tmp_path / "film.mp4", Colours({})) as video:  # noqa: PT012
            for picture in noise:
                video.add(picture)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(error.value).startswith(f"cannot write {tmp_path / 'film.mp4'}: ")
    assert "\n" not in str(error.value)
    assert "libx264" not in str(error.value)
    assert capfd.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []
