"""The commands that show and play the Labyrinth."""

from __future__ import annotations

import os
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest

from mfec.cli import main
from mfec.envs.labyrinth import LEVELS

from .waiting import PATIENCE


@pytest.mark.parametrize("name", ["labyrinth_forage", "labyrinth_forage_and_avoid"])
def test_envs_draws_a_level(tmp_path, monkeypatch, capsys, name):
    """Without `--out` the picture is named after the environment."""
    monkeypatch.chdir(tmp_path)
    assert main(["envs", "--show", LEVELS[name].id]) == 0
    assert capsys.readouterr().out == f"{name}.png\n"
    assert min(matplotlib.image.imread(f"{name}.png").shape[:2]) > 500


def test_the_seed_chooses_the_episode(tmp_path, capsys):
    pictures = []
    for seed in ("0", "0", "1"):
        out = tmp_path / "new" / "map.png"
        assert main(["envs", "--show", "labyrinth_double_t_maze", "--seed", seed, "--out", str(out)]) == 0
        assert capsys.readouterr().out == f"{out}\n"
        pictures.append(matplotlib.image.imread(out))
    assert np.array_equal(pictures[0], pictures[1])
    assert not np.array_equal(pictures[0], pictures[2])


@pytest.mark.parametrize(("options", "message"), [
    (["--out", "a.png"], "--out and --seed are of a picture: name an environment to draw with --show"),
    (["--show", "labyrinth_forrage"], "unknown environment 'labyrinth_forrage'; did you mean 'labyrinth_forage'?"),
    (["--show", "qbertt"], "unknown game 'qbertt'; did you mean 'qbert'?"),
    (["--show", "labyrinth_forage", "--out", "map.txt"], "cannot draw map.txt: a picture ends in .png, .pdf, .svg"),
    (["--show", "labyrinth_forage", "--seed", "-1"], "a seed must not be negative, and -1 is"),
])  # fmt: skip
def test_envs_refuses_in_a_sentence(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    assert main(["envs", *options]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"mfec: {message}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("arguments", "message"), [
    (["qbert"], "'qbert' cannot be played by hand; these can: labyrinth_forage, labyrinth_forage_and_avoid, "),
    (["labyrinth_forage", "--width", "10"], "a window has at least 480 x 360 pixels, not 10 x 600"),
    (["labyrinth_forage", "--seed", "-1"], "a seed must not be negative, and -1 is"),
])  # fmt: skip
def test_play_refuses_in_a_sentence(monkeypatch, capsys, arguments, message):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    assert main(["play", *arguments]) == 1
    assert capsys.readouterr().err.startswith(f"mfec: {message}")


def test_play_passes_its_options_on(monkeypatch):
    asked = []
    monkeypatch.setattr("mfec.experiments.play.play", lambda *names, **options: asked.append((names, options)))
    assert main(["play", "labyrinth_forage"]) == 0
    assert main(["play", "labyrinth_double_t_maze", "--seed", "4", "--width", "640", "--height", "480"]) == 0
    assert asked == [
        (("labyrinth_forage",), {"seed": 0, "width": 800, "height": 600}),
        (("labyrinth_double_t_maze",), {"seed": 4, "width": 640, "height": 480}),
    ]


def test_play_names_the_extra_it_needs(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert main(["play", "labyrinth_forage"]) == 1
    assert capsys.readouterr().err == "mfec: mfec play needs the extra `play`: pip install 'mfec[play]'\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_play_without_a_display_is_one_sentence():
    pytest.importorskip("pygame")
    hidden = {"DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"}
    ended = subprocess.run(
        [sys.executable, "-m", "mfec", "play", "labyrinth_forage"],
        env={name: value for name, value in os.environ.items() if name not in hidden},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == "mfec: there is no display to open a window on; `mfec play` needs a desktop\n"
