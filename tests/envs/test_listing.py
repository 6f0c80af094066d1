"""What is listed can be played, and what is left out is counted with its reason."""

from __future__ import annotations

import gymnasium
import pytest

from mfec.canonical_names import LEVEL_IDS
from mfec.cli import main
from mfec.envs import make_env
from mfec.envs.listing import list_environments

MODULE = """
import gymnasium
from gymnasium import spaces

class Plain(gymnasium.Env):
    observation_space = spaces.Box(0.0, 1.0, (2,))
    action_space = spaces.Discrete(2)

class Continuous(Plain):
    action_space = spaces.Box(-1.0, 1.0, (2,))

class Broken(Plain):
    def __init__(self):
        raise RuntimeError("out of order")

class Needs(Plain):
    def __init__(self):
        import a_package_that_nobody_has

for version, kind in ((0, Broken), (1, Plain)):
    gymnasium.register(f"listed/Plain-v{version}", entry_point=kind)
for kind in (Continuous, Broken, Needs):
    gymnasium.register(f"listed/{kind.__name__}-v0", entry_point=kind)
"""


@pytest.fixture
def listed_envs(tmp_path, monkeypatch):
    """A module that registers environments, of which one can be played."""
    (tmp_path / "listed_envs.py").write_text(
        MODULE.replace("entry_point=kind", "entry_point=f'listed_envs:{kind.__name__}'")
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "listed_envs"
    for name in [name for name in gymnasium.registry if name.startswith("listed/")]:
        del gymnasium.registry[name]


def test_of_a_module_what_can_be_played_is_listed_by_the_name_that_makes_it(listed_envs, capsys):
    assert main(["envs", f"{listed_envs}:"]) == 0
    *names, why = capsys.readouterr().out.splitlines()
    assert names == ["listed_envs:", "  listed_envs:listed/Plain-v1"]
    for reason in (
        "1 of an old version", "1 with continuous actions", "1 failing when they are made",
        "1 lacking a package (a_package_that_nobody_has)",
    ):  # fmt: skip
        assert reason in why
    env = make_env(names[1].strip())
    assert env.action_space == gymnasium.spaces.Discrete(2)
    assert main(["envs", f"{listed_envs}:nothing"]) == 1
    assert main(["envs", "no_such_module:"]) == 1
    assert "no_such_module" in capsys.readouterr().err


def test_everything_that_gymnasium_itself_brings_is_listed_or_counted():
    listing = list_environments()
    ids = listing.families["Gymnasium environments"]
    assert {"CartPole-v1", "FrozenLake-v1", "Acrobot-v1", "ALE/Pong-v5"} <= set(ids)
    assert not {"CartPole-v0", "Pendulum-v1", "PongNoFrameskip-v4", "mfec/Labyrinth-Forage-v0"} & set(ids)
    assert listing.left_out["with continuous actions"] >= 2
    assert "Pong-v4" in gymnasium.registry
    assert listing.left_out["of an old version"] > 100
    vizdoom = sum(name.startswith("Vizdoom") for name in gymnasium.registry)
    assert len(ids) + sum(listing.left_out.values()) == len(gymnasium.registry) - len(LEVEL_IDS) - vizdoom


@pytest.mark.parametrize(("pattern", "found"), [
    ("lake", {"FrozenLake-v1", "FrozenLake8x8-v1"}),
    ("*lake-v?", {"FrozenLake-v1"}),
    ("Q*bert", {"qbert"}),
    ("ALE/Qbert", {"ALE/Qbert-v5"}),
])  # fmt: skip
def test_a_pattern_is_a_part_of_a_name_or_matches_it(pattern, found):
    assert {name for names in list_environments(pattern).families.values() for name in names} == found


def test_a_pattern_that_nothing_has_is_refused(capsys):
    assert main(["envs", "nothing has this"]) == 1
    assert capsys.readouterr().err.startswith("mfec: no environment has 'nothing has this' in its name")


def test_listing_warns_of_nothing(recwarn):
    list_environments("cart")
    assert not recwarn.list
