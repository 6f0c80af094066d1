"""Recipes: a word stands for settings, and what is given beside it counts more."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from mfec.cli import main
from mfec.config import AgentConfig
from mfec.experiments.many_runs import Run
from mfec.recipes import AGENT, agent_defaults
from mfec.run_directory import RunDirectory

QUICK = ["--total-frames", "40", "--capacity", "50", "--no-video"]


def settings(out: Path, *arguments: str) -> AgentConfig:
    assert main(["train", *arguments, *QUICK, "--out", str(out)]) == 0
    return RunDirectory(out).read_config().agent


def test_the_default_is_the_paper():
    assert agent_defaults("qbert") == agent_defaults("qbert", "paper") == AgentConfig(k=11, gamma=1.0, epsilon=0.005)
    assert AGENT["paper"]["atari"] == {}


def test_recipes_name_settings_that_there_are():
    for recipe in AGENT.values():
        assert set(recipe) == {"atari", "labyrinth", "other"}
        for of_kind in recipe.values():
            assert set(of_kind) <= {field.name for field in fields(AgentConfig)}


def test_what_is_given_beside_a_recipe_counts_more(tmp_path):
    """The same number as the paper's, but given."""
    assert agent_defaults("qbert", "tuned").gamma < 1.0
    assert settings(tmp_path, "qbert", "--recipe", "tuned", "--gamma", "1").gamma == 1.0


def test_a_run_with_a_recipe_goes_on_with_or_without_the_word(tmp_path, capsys):
    assert settings(tmp_path, "qbert", "--recipe", "tuned").gamma == agent_defaults("qbert", "tuned").gamma < 1.0
    tuned, paper = vars(agent_defaults("qbert", "tuned")), vars(agent_defaults("qbert"))
    own = [f"--{name}={value}" for name, value in tuned.items() if value != paper[name]]
    assert own
    more = ["--total-frames", "80", "--capacity", "50", "--no-video", "--resume", "--out", str(tmp_path)]
    assert main(["train", "qbert", "--recipe", "tuned", *more]) == 0
    assert main(["train", "qbert", *own, *more]) == 0
    capsys.readouterr()
    assert main(["train", "qbert", *more]) == 1
    assert "it cannot go on with" in capsys.readouterr().err


def test_several_runs_have_the_recipe_of_their_kind(monkeypatch):
    asked: list[Run] = []
    monkeypatch.setattr("mfec.experiments.many_runs.train_runs", lambda runs, *_, **__: asked.extend(runs))
    main(["train", "qbert", "labyrinth_forage", "--recipe", "tuned"])
    assert [run.config.env for run in asked] == ["qbert", "labyrinth_forage"]
    for run in asked:
        expected = agent_defaults(run.config.env, "tuned")
        assert (run.config.agent.gamma, run.config.agent.k) == (expected.gamma, expected.k)


def test_recipes_are_mfecs(tmp_path, capsys):
    arguments = ["--algorithm", "dqn", "--recipe", "tuned", "--total-frames", "40", "--out", str(tmp_path / "run")]
    assert main(["train", "qbert", *arguments]) == 1
    assert "dqn has no recipe 'tuned': --recipe is an option of mfec" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
