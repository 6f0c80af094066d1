"""Environments, keywords and wrappers that a person names: those of their own module, beside the command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from mfec.agent import MFEC
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.envs import make_env
from mfec.inspector.inspection import Inspection
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE
from .corridor import CORRIDOR

MODULE = "corridor_of_a_user"


@pytest.fixture(autouse=True)
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory with the module, the current one; what is imported from it is forgotten afterwards."""
    (tmp_path / f"{MODULE}.py").write_text(CORRIDOR)
    (tmp_path / "broken.py").write_text("import gymnasium\nimport nothing_like_it\n")
    (tmp_path / "tomllib.py").write_text("raise AssertionError('a file of the user shadows the library')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield tmp_path
    for name in (MODULE, "broken", "in_disguise"):
        sys.modules.pop(name, None)
    gymnasium.registry.pop("Corridor-v0", None)


def mfec(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as it is installed: with the folder of the script, and not the current one, in Python's path."""
    program = "import sys; from mfec.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments], capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


OPTIONS = ["--total-frames", "40", "--capacity", "50", "--no-video", "--wrapper", f"{MODULE}:Twice"]


@pytest.mark.slow(reason="the command and two runs, each a process")
def test_the_command_imports_from_the_current_directory_in_all_of_its_processes():
    ended = mfec("train", f"{MODULE}:Corridor-v0", *OPTIONS, "--out", "many", "--seeds", "0", "1")
    assert ended.returncode == 0, ended.stderr
    assert main(["evaluate", "many/seed-1", "--episodes", "2"]) == 0


@pytest.mark.parametrize("name", ["Corridor-v0", "short"])
def test_a_module_in_the_current_directory_can_be_named_by_every_command(name, capsys):
    sys.path.pop()  # `main` adds it
    train = ["train", f"{MODULE}:{name}", *OPTIONS]
    assert main([*train, "--out", "one"]) == 0
    assert main([*train, "--out", "one", "--resume", "--total-frames", "60"]) == 0
    assert "going on from frame 40" in capsys.readouterr().out
    assert main([*train, "--n-envs", "2"]) == 0
    two = RunDirectory(f"runs/{MODULE}-{name}")
    assert two.read_config().environment.wrappers == (f"{MODULE}:Twice",)
    assert main(["evaluate", str(two.path), "--episodes", "2"]) == 0
    assert main(["inspect", str(two.path), "--export", "game.html"]) == 0


@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.parametrize("name", [f"{MODULE}:Corridor", f"{MODULE}:Corridor-v0"])
def test_keywords_and_wrappers_reach_every_environment_the_first_innermost(name, n_envs):
    wrappers = (f"{MODULE}:Twice", f"{MODULE}:add_one", "gymnasium.wrappers:FlattenObservation")
    env = make_env(name, EnvConfig(n_envs=n_envs, env_kwargs=("length=3",), wrappers=wrappers))
    single = env.observation_space if n_envs == 1 else env.single_observation_space
    assert single.shape == (3 + 2,)
    env.reset(seed=0)
    for _ in range(3):
        _, reward, *_ = env.step(env.action_space.sample() * 0 + 1)
    assert np.all(reward == 2 * 1 + 1)


@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.parametrize("name", ["qbert", "labyrinth_forage"])
def test_games_and_levels_are_wrapped_too_and_keep_their_frames(name, n_envs):
    env = make_env(name, EnvConfig(n_envs=n_envs, wrappers=("gymnasium.wrappers:FlattenObservation",)))
    agent = MFEC(env, capacity=100, seed=0).learn(200)
    assert agent.observation_space.shape == (84 * 84,)
    assert agent.frame_skip == 4
    assert agent.truncated == "auto"


def test_keywords_are_read_as_toml_where_they_are():
    given = ("a=false", "b=8", "c=0.5", 'd="8"', "e=8x8", "f=[1, 2]", "g=True", "h=None", "i=x=y", "j= ", "k=1\nl=2")
    keywords = EnvConfig(env_kwargs=given).keywords()
    assert list(keywords.values()) == [False, 8, 0.5, "8", "8x8", [1, 2], True, None, "x=y", "", "1\nl=2"]


def test_gymnasium_takes_its_own_keywords():
    env = make_env("FrozenLake-v1", EnvConfig(env_kwargs=("is_slippery=false", "max_episode_steps=5")))
    assert (env.spec.max_episode_steps, env.unwrapped.spec.kwargs["is_slippery"]) == (5, False)


@pytest.mark.parametrize("given", [["size"], ["=8"], ["my size=8"], ["8=size"], ["a=1", "a=2"], "a=1"])
def test_what_is_no_keyword_is_refused(given):
    with pytest.raises(ValueError, match=r"name=value|a twice|a list of words"):
        EnvConfig(env_kwargs=given)


@pytest.mark.parametrize(("name", "settings", "named"), [
    (f"{MODULE}:Corridor", {"env_kwargs": ["lenght=3"]}, "does not take the keyword 'lenght'; did you mean 'length'"),
    ("FrozenLake-v1", {"env_kwargs": ["size=3"]}, "keywords are: desc, map_name, is_slippery"),
    ("qbert", {"env_kwargs": ["size=3"]}, "qbert takes no keywords"),
    ("labyrinth_forage", {"env_kwargs": ["size=3"], "n_envs": 2}, "labyrinth_forage takes no keywords"),
    (f"{MODULE}:number", {}, "is a int, neither an environment class"),
    (f"{MODULE}:short_one", {}, "is a Corridor, neither an environment class"),
    (f"{MODULE}:Twice", {}, "is a wrapper; name an environment, and the wrapper with --wrapper"),
    (f"{MODULE}:Corridro", {}, f"{MODULE} has no attribute 'Corridro'"),
    (f"{MODULE}:add_one", {}, "needs the keyword 'env'"),
    (f"{MODULE}:short", {"wrappers": [f"{MODULE}:Corridor"]}, "is the class Corridor, neither a wrapper class"),
    (f"{MODULE}:short", {"wrappers": [f"{MODULE}:Twic"]}, "has no 'Twic'; did you mean 'Twice'"),
    (f"{MODULE}:short", {"wrappers": ["nothing:X"]}, "there is no module 'nothing', neither installed nor in /"),
    ("nothing.at_all:X", {}, "there is no module 'nothing'"),
    ("highway_env:highway-v0", {}, "pip install 'highway-env'"),
    (":Corridor", {}, "names no module"),
    (f"{MODULE}:short", {"wrappers": ["os:system"]}, "Python's own library"),
    ("os:system", {"env_kwargs": ["command=touch called"]}, "Python's own library"),
    ("multiprocessing.pool:Pool", {}, "Python's own library"),
    ("numpy:fromfile", {}, "neither an environment class"),
    ("gymnasium.vector:SyncVectorEnv", {}, "is a vector environment"),
])  # fmt: skip
def test_what_cannot_be_named_is_refused_in_a_sentence(name, settings, named, beside):
    with pytest.raises((TypeError, ValueError), match=re.escape(named)) as refused:
        make_env(name, EnvConfig(**settings))
    assert "\n" not in str(refused.value)
    assert not (beside / "called").exists()


def test_a_function_of_pythons_library_under_another_name_is_not_called(beside):
    (beside / "in_disguise.py").write_text("from os import system\nfrom shutil import rmtree as make\n")
    for name in ("system", "make"):
        with pytest.raises(TypeError, match="neither an environment class"):
            make_env(f"in_disguise:{name}", EnvConfig(env_kwargs=("path=x",)))


@pytest.mark.parametrize(("given", "named"), [
    ("Taxi-v2", "did you mean 'Taxi-v4'"),
    ("CartPole", "did you mean 'CartPole-v1'"),
    ("MiniWorld-Hallway-v0", "`pip install 'miniworld'`, then miniworld:MiniWorld-Hallway-v0"),
    ("Corridor-v9", "package:Corridor-v9 would import the package"),
])  # fmt: skip
def test_an_unknown_id_says_what_to_do(given, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        make_env(given)


@pytest.mark.parametrize("given", ["MiniGrid-Empty-8x8-v0", "MinAtar/Breakout-v1"])
def test_ids_of_well_known_packages_import_them(given):
    pytest.importorskip({"MiniGrid": "minigrid"}.get(given.split("-")[0], "minatar"))
    assert isinstance(make_env(given), gymnasium.Env)
    with pytest.raises(ValueError, match=f"did you mean '{given}'"):
        make_env(given.replace("t", "tt", 1))


def test_a_package_that_an_environment_lacks_is_named_with_how_to_install_it():
    program = f"""if True:
        import sys
        sys.modules["Box2D"] = None
        from mfec.cli import main
        sys.exit(main(["train", "LunarLander-v3", "--out", {str(Path("run"))!r}]))
    """
    ended = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 1
    assert re.search(r"mfec: LunarLander-v3 cannot be made: .*pip install", ended.stderr)
    assert "Traceback" not in ended.stderr


# -- Crashes ----------------------------------------------------------------------------------------------------------

TRAIN = ["--total-frames", "60", "--capacity", "50", "--no-video", "--seed", "3"]


def same(one: str, other: str) -> bool:
    """Whether two runs have the same games and entries."""
    games = [RunDirectory(path).episodes_file.read_text() for path in (one, other)]
    memories = [MFEC.load(RunDirectory(path).checkpoint).memory.tensors() for path in (one, other)]
    return games[0] == games[1] and all(np.array_equal(memories[0][name], memories[1][name]) for name in memories[0])


@pytest.mark.parametrize(("fails", "n_envs"), [("step", 1), ("step", 2), ("reset", 1)])
def test_a_crash_saves_everything_before_it_and_shows_their_traceback(fails, n_envs, beside, capsys):
    """Mended, the run goes on and ends as one that never failed."""
    arguments = ["train", f"{MODULE}:Corridor", *TRAIN, "--n-envs", str(n_envs)]
    assert main([*arguments, "--out", "whole"]) == 0
    code = beside / f"{MODULE}.py"
    code.write_text(CORRIDOR.replace("door=0", "door=21").replace('fails="step"', f"fails={fails!r}"))
    del sys.modules[MODULE]
    assert main([*arguments, "--out", "failed"]) == 1
    said = capsys.readouterr()
    assert f"mfec: Corridor raised RuntimeError: the door is locked ({MODULE}.py, line " in said.err
    frames = re.findall(r'File "(.*)", line', said.err)
    assert {Path(file).name for file in frames} == {code.name}
    assert "KeyError: 'door'" in said.err
    again = re.search(r"go on with\n  mfec (.*) --resume", said.out)
    assert again is not None
    assert MFEC.load("failed/checkpoint").frames == (20 if n_envs == 1 else 40) + (fails == "reset")
    code.write_text(CORRIDOR)
    del sys.modules[MODULE]
    assert main([*again[1].split(), "--resume"]) == 0
    assert same("failed", "whole")


def test_a_constructor_that_fails_shows_its_traceback_and_begins_no_run(capsys):
    assert main(["train", f"{MODULE}:Corridor", "--env-kwargs", "length=1", "--out", "run"]) == 1
    said = capsys.readouterr().err
    assert re.findall(r'File ".*/(.*)", line \d+, in (\w+)', said) == [(f"{MODULE}.py", "__init__")]
    assert said.splitlines()[-1] == f"mfec: {MODULE}:Corridor raised ValueError: too short ({MODULE}.py, line 14)"
    assert not Path("run").exists()


def test_a_module_that_cannot_be_imported_shows_its_traceback(capsys):
    assert main(["train", "broken:Env", "--out", "run"]) == 1
    said = capsys.readouterr().err
    assert 'broken.py", line 2' in said
    assert "mfec/" not in said
    assert "mfec: broken:Env raised ModuleNotFoundError: No module named 'nothing_like_it' (broken.py, line 2)" in said


def test_the_whole_traceback_is_shown_on_demand(monkeypatch):
    monkeypatch.setenv("MFEC_TRACEBACK", "1")
    with pytest.raises(Exception, match="the door is locked") as crash:
        main(["train", f"{MODULE}:Corridor", "--env-kwargs", "door=9", *TRAIN, "--out", "run"])
    assert isinstance(crash.value.__cause__, RuntimeError)


@pytest.mark.slow(reason="two runs in processes")
def test_of_several_runs_the_one_that_failed_is_named_with_its_error(capsys):
    arguments = [f"{MODULE}:Corridor", "--env-kwargs", "door=9", "--total-frames", "30", "--seeds", "0", "1"]
    assert main(["train", *arguments, "--no-video", "--out", "runs"]) == 1
    said = capsys.readouterr()
    assert f"seed 1 failed: Corridor raised RuntimeError: the door is locked ({MODULE}.py, line" in said.err
    log = Path("runs/seed-1/log.txt").read_text()
    assert "KeyError: 'door'" in log
    assert "environments.py" not in log
    assert MFEC.load("runs/seed-1/checkpoint").frames == 8


def test_in_python_the_agent_is_whole_and_the_error_is_the_cause():
    agent = MFEC(make_env(f"{MODULE}:Corridor", EnvConfig(env_kwargs=("door=10",))), capacity=50, seed=0)
    with pytest.raises(Exception, match="Corridor raised RuntimeError: the door is locked") as crash:
        agent.learn(30)
    assert isinstance(crash.value.__cause__, RuntimeError)
    assert agent.frames == 9
    assert agent.learn(30).frames == 30  # it fails in that step alone


def test_the_first_reset_may_fail(capsys):
    class Shut(gymnasium.Wrapper):
        shut = True

        def reset(self, **arguments):
            if self.shut:
                raise OSError("no key")
            return super().reset(**arguments)

    env = Shut(gymnasium.make("CartPole-v1"))
    agent = MFEC(env, capacity=50, seed=0)
    with pytest.raises(Exception, match="CartPole-v1 raised OSError: no key"):
        agent.learn(30)
    env.shut = False
    assert agent.learn(30).frames == 30


def test_a_step_in_the_old_style_is_named():
    class Old(gymnasium.Wrapper):
        def step(self, action):
            return super().step(action)[:4]

    with pytest.raises(Exception, match=r"does not keep to Gymnasium's interface: .*expected 5, got 4"):
        MFEC(Old(gymnasium.make("CartPole-v1")), capacity=50).learn(30)


def test_the_inspector_shows_actions_of_several_parts():
    assert main(["train", f"{MODULE}:Corridor", *TRAIN, "--out", "run"]) == 0
    inspection = Inspection(RunDirectory("run"))
    inspection.finish(inspection.play())
    assert inspection.run()["actions"] == ["action 0 0", "action 0 1", "action 1 0", "action 1 1"]
    inspection.close()
