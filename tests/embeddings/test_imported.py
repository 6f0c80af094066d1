"""An embedding by the name `package.module:object`: from Python and on the command line, in a run and in many."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mfec import MFEC, AgentConfig
from mfec.checkpoint import CheckpointError
from mfec.cli import main
from mfec.embeddings import EmbeddingError
from mfec.run_directory import RunDirectory

ENCODERS = """
import numpy as np


def halves(observations):
    return observations / 2.0


class Twice:
    factor = 2.0

    def __call__(self, observations):
        return observations * self.factor


class Seeded:
    name, has_neighbours = "seeded", True

    def __init__(self, weights):
        self.weights, self.dim = weights, weights.shape[1]

    @classmethod
    def make(cls, space, *, dim, seed, vae):
        return cls(np.random.default_rng(seed).standard_normal((4, dim)).astype(np.float32))

    @staticmethod
    def dim_for(space, *, dim, vae):
        return dim

    def __call__(self, observations):
        return observations @ self.weights

    def tensors(self):
        return {"weights": self.weights}

    @classmethod
    def restore(cls, tensors):
        return cls(tensors["weights"])


class Networks:
    ready = Twice()
"""


@pytest.fixture(autouse=True)
def encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of embeddings in the current directory, under a name that no other test has."""
    name = "encoders_" + re.sub(r"\W", "_", tmp_path.name)
    file = tmp_path / f"{name}.py"
    file.write_text(ENCODERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield file
    sys.modules.pop(name, None)


def mfec(command: str, encoders: Path) -> int:
    return main(shlex.split(command.replace("encoders:", f"{encoders.stem}:")))


@pytest.mark.parametrize("place", ["halves", "Twice", "Seeded", "Networks.ready"])
def test_it_is_taken_by_its_name_and_loaded_only_when_asked_for(place, encoders, tmp_path):
    name = f"{encoders.stem}:{place}"
    agent = MFEC("CartPole-v1", embedding=name, dim=5, capacity=100, seed=3).learn(200)
    assert agent.config.embedding == name
    assert agent.embedding.dim == (5 if place == "Seeded" else 4)
    assert agent.embedding.name == ("seeded" if place == "Seeded" else place)
    agent.save("saved")
    with pytest.raises(CheckpointError, match=rf"embedding of your own; `load` needs '{name}' as well"):
        MFEC.load("saved")
    again = MFEC.load("saved", embedding=name)
    observation = np.array([0.1, 0.2, 0.0, 0.3], np.float32)
    assert np.array_equal(again.explain(observation).values, agent.explain(observation).values)
    with pytest.raises(CheckpointError, match="another embedding than"):
        MFEC.load("saved", embedding=lambda o: np.ones((len(o), agent.embedding.dim)) * o[:, :1])


@pytest.mark.parametrize(("name", "said"), [
    ("os:system", "'os:system' lies in Python's standard library; name a module of your own"),
    ("importlib.util:find_spec", "lies in Python's standard library"),
    ("encoder_that_is_not_there:net", "there is no module 'encoder_that_is_not_there' .*, neither in /.* nor among"),
    ("encoders.py:halves", r"there is no module 'encoders\w*\.py' .*; write 'encoders\w*:halves'"),
    ("encoders:halfs", r"has no 'halfs' for the embedding '.*'; did you mean 'halves'\?"),
    ("encoders:Networks.redy", r"Networks has no 'redy' .*; did you mean 'ready'\?"),
])  # fmt: skip
def test_what_cannot_be_found_is_said(name, said, encoders):
    with pytest.raises(EmbeddingError, match=said):
        MFEC("CartPole-v1", embedding=re.sub(r"^encoders(\.py)?:", rf"{encoders.stem}\1:", name), seed=0)


def test_what_fails_in_the_users_module_is_said_with_its_line(encoders):
    encoders.write_text("import numpy\n\nweights = 1 / 0\n")
    with pytest.raises(
        EmbeddingError, match=r"cannot be imported: ZeroDivisionError: .* \(line 3 of .*encoders_.*py\)"
    ):
        MFEC("CartPole-v1", embedding=f"{encoders.stem}:net", seed=0)
    encoders.write_text("import a_package_that_is_not_there\n")
    with pytest.raises(EmbeddingError, match=r"cannot be imported: No module named 'a_package_.*\(line 1 of .*py\)"):
        MFEC("CartPole-v1", embedding=f"{encoders.stem}:net", seed=0)


@pytest.mark.parametrize(("name", "said"), [
    ("vea", "unknown embedding 'vea'; did you mean 'vae'"),
    ("pca", "unknown embedding 'pca'; there are auto, random_projection, .* your own: package.module:object"),
    ("my encoder:net", "unknown embedding"),
    (3, "unknown embedding 3"),
])  # fmt: skip
def test_a_name_of_nothing_is_refused_with_the_settings(name, said):
    with pytest.raises(ValueError, match=said):
        AgentConfig(embedding=name)


@pytest.mark.slow("runs of the command, one of them in two processes")
def test_a_run_by_the_command_goes_on_and_is_evaluated_drawn_and_reported(encoders, capsys):
    train = "train CartPole-v1 --embedding encoders:Twice --k 3 --capacity 1000 --no-video --total-frames {} --out {}"
    assert mfec(train.format(600, "once"), encoders) == 0
    assert mfec(train.format(300, "twice"), encoders) == 0
    assert mfec(train.format(600, "twice") + " --resume", encoders) == 0
    once, twice = RunDirectory("once"), RunDirectory("twice")
    assert once.read_config().agent.embedding == f"{encoders.stem}:Twice"
    assert once.episodes_file.read_text() == twice.episodes_file.read_text()
    many = f"{train.format(300, 'many')} --seeds 1 2"
    assert mfec(many, encoders) == 0
    for command in (
        "evaluate once --episodes 2",
        "plot once many --out plot.png",
        "figure figure1 once --out figure1.png",
        f"figure figure2 many --embedding {encoders.stem}:Twice --out figure2.csv",
        "report once many --out report.html",
    ):
        assert mfec(command, encoders) == 0, capsys.readouterr().err
    assert "MFEC, Twice" in Path("report.html").read_text()
    assert mfec("figure figure2 once --embedding encoders:halves --out no.csv", encoders) == 1
    assert f"there are runs with {encoders.stem}:Twice" in capsys.readouterr().err


def test_a_run_does_not_go_on_with_an_encoder_that_was_changed(encoders, capsys):
    train = "train CartPole-v1 --embedding encoders:Twice --capacity 1000 --no-video --total-frames {} --out run"
    assert mfec(train.format(300), encoders) == 0
    sys.modules[encoders.stem].Twice.factor = 2.5
    for command in (train.format(600) + " --resume", "evaluate run --episodes 1"):
        assert mfec(command, encoders) == 1
        assert "was saved with another embedding than Twice: the states of 8 observations" in capsys.readouterr().err
