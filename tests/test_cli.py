"""The command: what it lists, explains and refuses, always in a sentence."""

from __future__ import annotations

import importlib.util
import io
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import fields, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import mfec
from mfec.algorithms import RunConfig, algorithm
from mfec.algorithms.mfec import MFECConfig
from mfec.callbacks import Stopped
from mfec.cli import Check, Envs, Evaluate, Inspect, Play, Plot, Report, Train, VaeShow, VaeTrain, main
from mfec.cli.figure import Figure1, Figure2, MatchRates, Table
from mfec.cli.many_runs import LauncherOptions
from mfec.config import EnvConfig, VAEConfig
from mfec.experiments.many_runs import Run
from mfec.run_directory import RunDirectory

from .waiting import PATIENCE


@cache
def help_of(command: str) -> str:
    said = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(said), pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    said.seek(0)
    return said.read()


def explanations(command: str) -> dict[str, str]:
    """What the help of a command says about each option and positional argument, without its default."""
    found: dict[str, str] = {}
    name = ""
    for line in help_of(command).splitlines():
        if not line.startswith("│ "):
            name = ""
            continue
        body = line.strip("│").rstrip()[1:]
        if body and not body.startswith(" "):
            name, _, rest = body.partition("  ") if "  " in body else (body, "", "")
            found[name.strip()] = rest.strip()
        elif name:
            found[name.strip()] += " " + body.strip()
    options = {name: text for name, text in found.items() if name.startswith("-") or name.isupper() or "DIR" in name}
    return {name: re.sub(r"\((?:default:.*?|required)\)", "", text).strip() for name, text in options.items()}


# -- Help -------------------------------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    """It must answer in under a second."""
    program = """if True:
        import sys
        from mfec.cli import main
        try:
            main(["--help"])
        except SystemExit as ended:
            heavy = {"numba", "torch", "ale_py", "matplotlib", "gymnasium", "numpy", "safetensors", "imageio_ffmpeg",
                     "pygame"}
            sys.exit(ended.code or sorted(heavy & set(sys.modules)) or 0)
        sys.exit("no help")
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stderr
    for command in (
        "train",
        "evaluate",
        "inspect",
        "plot",
        "figure",
        "report",
        "reproduce",
        "vae",
        "check",
        "envs",
        "play",
    ):
        assert command in ended.stdout


@pytest.mark.parametrize(("command", "settings"), [
    ("train", [Train, MFECConfig, EnvConfig, LauncherOptions]), ("evaluate", [Evaluate]), ("plot", [Plot]),
    ("check", [Check, EnvConfig]), ("envs", [Envs]), ("play", [Play]), ("vae show", [VaeShow]),
    ("vae train", [VaeTrain, VAEConfig]),
    ("figure figure1", [Figure1]), ("figure figure2", [Figure2]), ("figure match_rates", [MatchRates]),
    ("figure table", [Table]), ("report", [Report]), ("inspect", [Inspect]),
])  # fmt: skip
def test_every_option_explains_itself(command, settings):
    explained = explanations(command)
    for name, text in explained.items():
        assert re.search(r"[a-zA-Z]{2,} .*[a-zA-Z]{2,}", text) or text == "Print JSON.", f"{name}: {text!r}"
    names = {word for name in explained for word in re.findall(r"--[\w-]+", name)}
    positional = {"env", "envs", "level", "directory", "directories", "pattern"}
    for field in (field for each in settings for field in fields(each)):
        nested = {"agent", "environment", "evaluation", "where", *(["recipe"] if command == "vae train" else [])}
        if field.name not in positional | nested:
            assert f"--{'wrapper' if field.name == 'wrappers' else field.name.replace('_', '-')}" in names
    assert len([name for name in explained if not name.startswith("-")]) == 1


def test_the_help_says_what_settings_are_and_the_defaults_of_atari_and_the_labyrinth():
    assert explanations("train")["--k INT"] == "Neighbours in an estimate."
    said = " ".join(help_of("train").replace("│", " ").split())
    own: MFECConfig = algorithm("mfec").defaults("labyrinth_forage")
    assert f"on the Labyrinth, k is {own.k}, gamma {own.gamma} and capacity {own.capacity:,} unless given." in said
    for name, value in (("k INT", 11), ("gamma FLOAT", 1.0), ("capacity INT", "1_000_000")):
        assert re.search(rf"--{name} [^(]*\(default: {value}\)", said)


@pytest.mark.parametrize(("given", "shown"), [([], "evaluate"), (["vae"], "show"), (["figure"], "match_rates")])
def test_without_a_command_its_help_is_shown(capsys, given, shown):
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 0
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize("command", ["", "train", "vae train", "reproduce", "figure figure1", "evaluate", "envs"])
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_has_titles_for_people_and_breaks_lines_where_the_terminal_does(monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = help_of.__wrapped__(command).splitlines()
    titles = [line for line in lines if line.startswith("╭")]
    assert titles
    assert not any(re.search(r"\.|\bcommand", title) for title in titles)
    assert all(len(line) <= columns for line in lines if not line.startswith("usage"))
    said = [line.strip("│ ") for line in lines]
    assert not any(re.search(r"None|\(default: \)", line) for line in said)
    for line, below in pairwise(lines):
        if all(each.startswith("│     ") for each in (line, below)) and not line.rstrip("│ ").endswith(")"):
            word = re.split(r"[ ,]", below.strip("│ "))[0]  # tyro breaks lines behind a comma, too
            assert len(line.strip("│").rstrip()) + len(word) >= columns - 5, f"{line} has room for {word!r}"


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mfec {mfec.__version__}\n"


def test_an_unknown_command_is_answered_with_the_nearest(capsys):
    assert main(["trian"]) == 1
    assert capsys.readouterr().err.startswith("mfec: unknown command 'trian'; did you mean 'train'?")


# -- Options ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch) -> list[RunConfig]:
    """Settings of the runs that are asked for; each is stopped before its first frame."""
    configs: list[RunConfig] = []

    def stop(config: RunConfig, *_, **__) -> None:
        configs.append(config)
        raise Stopped

    monkeypatch.setattr("mfec.experiments.train.train", stop)
    return configs


ATARI, LABYRINTH = (11, 1.0, 1_000_000), (50, 0.99, 100_000)


@pytest.mark.parametrize(("arguments", "numbers"), [
    (["qbert", "--k", "50", "--gamma", "0.99"], (50, 0.99, 1_000_000)),
    (["CartPole-v1", "CartPole-v1"], ATARI),  # named twice, it is trained once
    (["mfec/Labyrinth-ForageAndAvoid-v0", "--epsilon", "0.1"], LABYRINTH),
    (["labyrinth_forage", "--k", "11", "--gamma=1"], (11, 1.0, 100_000)),
    (["--capacity", "1000000", "--resume", "labyrinth_forage", "--no-video", "--n-envs", "2"], (50, 0.99, 1_000_000)),
])  # fmt: skip
def test_what_is_not_given_is_the_default_of_the_environment(asked, capsys, arguments, numbers):
    assert main(["train", *arguments]) == 130
    [config] = asked
    assert (config.agent.k, config.agent.gamma, config.agent.capacity) == numbers
    assert config.agent.epsilon == (0.1 if "--epsilon" in arguments else 0.005)
    assert config.environment.n_envs == (2 if "--n-envs" in arguments else 1)

    again = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert main(again[1:]) == 130
    assert asked == [config, config]


def test_options_reach_the_run(asked):
    agent = MFECConfig(
        k=3, kernel="inverse", gamma=0.5, epsilon=0.25, capacity=77, embedding="random_projection", dim=5,
        index="cells", recall=0.5, eviction="used", update="replace", few_neighbours="zero", ties="first",
        episode="game", truncated="skip",
    )  # fmt: skip
    environment = EnvConfig(n_envs=2, frame_stack=3, sticky_actions=0.125, max_frames=80)
    options = [
        word
        for each in (agent, environment)
        for name, value in vars(each).items()
        if value != ()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    options += ["--wrapper", "a.b:C", "--env-kwargs", "size=8", "slip=false", "--wrapper=a:d", "--env-kwargs", "x=-1"]
    environment = replace(environment, env_kwargs=("size=8", "slip=false", "x=-1"), wrappers=("a.b:C", "a:d"))
    assert main(["train", "qbert", "--total-frames", "40", "--seed", "9", *options]) == 130
    assert asked == [RunConfig("qbert", 40, 9, agent, environment)]


@pytest.mark.parametrize("frames", ["1e6", "1_000_000", "1.0e+6", "1000000", "10e5"])
def test_whole_numbers_are_written_as_people_write_them(asked, frames):
    assert main(["train", "qbert", "--total-frames", frames, "--capacity", "2e3"]) == 130
    assert (asked[0].total_frames, asked[0].agent.capacity) == (1_000_000, 2000)
    assert type(asked[0].total_frames) is int


def test_defaults_are_those_of_the_configuration(asked, capsys):
    assert main(["train", "FrozenLake-v1"]) == 130
    assert asked == [RunConfig("FrozenLake-v1", 1_000_000, 0, MFECConfig(), EnvConfig())]
    assert "--out runs/FrozenLake-v1" in capsys.readouterr().out


def test_a_run_that_was_stopped_at_once_does_not_say_that_it_saved(monkeypatch, capsys, tmp_path):
    def stopped_again(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mfec.experiments.train.train", stopped_again)
    assert main(["train", "CartPole-v1", "--out", str(tmp_path / "run")]) == 131
    said = capsys.readouterr().out
    assert said.startswith("stopped at once, with what had been saved before; go on with\n  mfec train CartPole-v1 ")


@pytest.mark.parametrize(("states", "last_words", "code"), [
    (("failed", "stopped"), "stopped, and saved; go on with", 130),
    (("finished", "stopped at once"), "stopped at once, with what had been saved before; go on with", 131),
])  # fmt: skip
def test_runs_that_were_stopped_say_together_whether_they_saved(
    monkeypatch, capsys, tmp_path, states, last_words, code
):
    def stop(runs: list[Run], *_, **__) -> None:
        for run, state in zip(runs, states, strict=True):
            run.state = state

    monkeypatch.setattr("mfec.experiments.many_runs.train_runs", stop)
    assert main(["train", "CartPole-v1", "--seeds", "0", "1", "--out", str(tmp_path)]) == code
    assert last_words in capsys.readouterr().out.splitlines()


def test_what_goes_on_with_a_run_names_only_what_is_not_a_default(asked, capsys):
    assert main(["train", "labyrinth_forage", "--k", "11", "--capacity", "100000"]) == 130
    again = shlex.split(capsys.readouterr().out.splitlines()[-1])
    given = ["--total-frames", "1000000", "--k", "11", "--seed", "0", "--out", "runs/labyrinth_forage", "--resume"]
    assert again == ["mfec", "train", "labyrinth_forage", *given]


def test_each_run_on_one_device_has_the_defaults_of_its_environment(monkeypatch, capsys):
    configs: list[RunConfig] = []

    def stop(runs: list[Run], *_, **__) -> None:
        for run in runs:
            configs.append(run.config)
            run.state = "stopped"

    monkeypatch.setattr("mfec.experiments.many_runs.train_runs", stop)
    assert main(["train", "qbert", "labyrinth_forage", "--index", "cuda", "--capacity", "1000000"]) == 130
    assert [(each.agent.k, each.agent.gamma, each.agent.capacity) for each in configs] == [ATARI, (50, 0.99, 1_000_000)]
    again = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert main(again[1:]) == 130
    assert configs[2:] == configs[:2]


@pytest.fixture
def maze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An environment that is named like a level of the Labyrinth."""
    (tmp_path / "small_maze.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.toy_text import FrozenLakeEnv\n"
        "gymnasium.register('mfec/Labyrinth-Small-v0', entry_point=FrozenLakeEnv, max_episode_steps=100)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "small_maze:mfec/Labyrinth-Small-v0"


def test_a_run_keeps_the_defaults_of_its_environment_and_goes_on_with_them(maze, tmp_path, capsys):
    arguments = ["train", maze, "--no-video", "--out", str(tmp_path / "run"), "--total-frames"]
    assert main([*arguments, "100"]) == 0
    run = RunDirectory(tmp_path / "run")
    for line in ("k = 50", "gamma = 0.99", "capacity = 100000", "epsilon = 0.005"):
        assert line in run.config_file.read_text().splitlines()
    assert main([*arguments, "200", "--resume"]) == 0
    assert "going on from frame 100" in capsys.readouterr().out
    own: Any = algorithm("mfec").defaults(maze)
    assert run.read_config().agent == replace(own, embedding="table", truncated="bootstrap")

    assert main([*arguments, "300", "--resume", "--k", "11"]) == 1
    assert "was begun with k = 50, it cannot go on with 11" in capsys.readouterr().err
    assert not (run.path / "video.mp4").exists()


# -- Options that are refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    (["--gamma", "nan"], "gamma must lie above 0 and not above 1, not nan"),
    (["--k", "0"], "k, capacity and dim must be at least 1"),
    (["--k", "many"], "many"),
    (["--n-envs", "0"], "n_envs must be at least 1, not 0"),
    (["--total-frames", "1.5"], "'1.5' is not a whole number"),
    (["--total-frames", "1e-3"], "'1e-3' is not a whole number"),
    (["--seeds", "0", "1.5"], "Error parsing --seeds: '1.5' is not a whole number"),
    (["--gpus-per-run", "half"], "Error parsing --gpus-per-run: could not convert string to float: 'half'"),
    (["--total-frames", "0"], "total_frames must be at least 1, not 0"),
    (["--seed", "-1"], "a seed must not be negative"),
    (["--index", "tree"], "'tree' for argument '--index'. Expected one of ('exact', 'cells', 'cuda'"),
    (["--device", "cuda", "--index", "exact"], "'exact' searches on the CPU; device 'cuda' takes 'cuda' or 'auto'"),
    (["--recall", "1.01"], "recall must lie above 0 and not above 1, not 1.01"),
    (["--frame-stack", "4"], "are for Atari games, not for CartPole-v1"),
    (["--colour", "red"], "--colour"),
    (["--algorithm", "a2c", "--k", "3"], "--k"),
    (["--algorithm", "dqm"], "unknown algorithm 'dqm'; did you mean 'dqn'?"),
])  # fmt: skip
def test_senseless_options_are_refused_in_a_sentence(tmp_path, capsys, options, message):
    try:
        status = main(["train", "CartPole-v1", *options, "--out", str(tmp_path / "run")])
    except SystemExit as ended:
        status = ended.code
    error = capsys.readouterr().err
    assert status in (1, 2)
    assert message in " ".join(error.replace("│", " ").split())
    assert "__" not in error  # names that tyro uses inside
    assert not (tmp_path / "run").exists()


def test_train_needs_an_environment(capsys):
    assert main(["train", "--total-frames", "10"]) == 1
    assert capsys.readouterr().err == "mfec: name an environment to train on; `mfec envs` lists them\n"


def test_an_error_can_be_shown_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("MFEC_TRACEBACK", "1")
    with pytest.raises(ValueError, match="unknown game 'qbertt'"):
        main(["train", "qbertt", "--out", str(tmp_path)])


# -- Environments -----------------------------------------------------------------------------------------------------


def test_envs_lists_what_can_be_named(capsys):
    assert main(["envs"]) == 0
    names = capsys.readouterr().out.split()
    for name in ("qbert", "ms_pacman", "river_raid", "frostbite", "space_invaders", "CartPole-v1", "FrozenLake-v1"):
        assert name in names


@pytest.mark.parametrize(("given", "meant"), [
    ("mspackman", "ms_pacman"), ("CartPol-v1", "CartPole-v1"), ("CartPole-v9", "CartPole-v"), ("FrozenLake", ""),
])  # fmt: skip
def test_an_unknown_name_is_answered_with_the_nearest(tmp_path, capsys, given, meant):
    assert main(["train", given, "--out", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(rf"mfec: unknown (game|environment) '{given}'; .*`mfec envs` lists all of them\n", error)
    assert not meant or f"; did you mean '{meant}" in error
    assert not (tmp_path / "run").exists()


def test_an_unknown_module_is_a_sentence(tmp_path, capsys):
    assert main(["train", "no_such_module:Thing-v0", "--out", str(tmp_path / "run")]) == 1
    assert re.match("mfec: .*no_such_module", capsys.readouterr().err)


@pytest.mark.skipif(importlib.util.find_spec("Box2D") is not None, reason="Box2D is installed")
def test_an_environment_that_lacks_its_own_library_is_a_sentence(tmp_path, capsys):
    assert main(["train", "LunarLander-v3", "--n-envs", "2", "--out", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("mfec: ")
    assert "gymnasium[box2d]" in error


def test_an_environment_need_not_know_of_pictures(tmp_path, monkeypatch):
    """Nothing is asked of it that Gymnasium does not ask."""
    (tmp_path / "plain_env.py").write_text(
        "import gymnasium\n"
        "class Plain(gymnasium.Env):\n"
        "    observation_space = action_space = gymnasium.spaces.Discrete(2)\n"
        "    def __init__(self): pass\n"
        "    def reset(self, *, seed=None, options=None): super().reset(seed=seed); return 0, {}\n"
        "    def step(self, action): return 1, 1.0, True, False, {}\n"
        "gymnasium.register('Plain-v0', entry_point=Plain)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for n_envs in ("1", "2"):
        arguments = ["--total-frames", "20", "--capacity", "9", "--n-envs", n_envs, "--out", str(tmp_path / n_envs)]
        assert main(["train", "plain_env:Plain-v0", *arguments]) == 0
        assert main(["evaluate", str(tmp_path / n_envs), "--episodes", "2"]) == 0


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    arguments = ["--total-frames", "20", "--capacity", "9", "--out", str(tmp_path / "taken")]
    assert main(["train", "FrozenLake-v1", *arguments]) == 1
    assert f"cannot begin a run in {tmp_path / 'taken'}" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(("arguments", "name"), [
    (["evaluate", "nowhere", "--video"], "film.mp4"),
    (["inspect", "nowhere", "--export"], "page.html"),
    (["plot", "broken", "--out"], "curve.svg"),
    (["figure", "figure1", "broken", "--out"], "figure.png"),
    (["figure", "table", "broken", "--out"], "table.md"),
    (["report", "broken", "--out"], "report.html"),
    (["envs", "--show", "nothing", "--out"], "picture.png"),
    (["vae", "show", "nothing", "--out"], "picture.png"),
])  # fmt: skip
def test_where_no_file_can_be_written_that_is_said_before_anything_else_is_done(
    tmp_path, monkeypatch, capsys, arguments, name
):
    """Each of these would fail of something else, were it begun."""
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("mine")
    Path(name).mkdir()
    Path("broken").mkdir()
    for file in ("config.toml", "episodes.csv"):
        Path("broken", file).write_text("?")
    for out in (f"taken/{name}", name):
        assert main([*arguments, out]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"mfec: cannot write {out}: ")
        assert said.count("\n") == 1


def test_the_command_is_installed_and_makes_no_traceback(tmp_path):
    script = Path(sys.executable).with_name("mfec")
    command = [script, "train", "json:Thing-v0", "--out", str(tmp_path / "run")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 1
    assert ended.stderr.startswith("mfec: ")
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.slow(reason="films a game")
def test_a_run_ends_with_a_video(tmp_path, capsys):
    arguments = ["train", "qbert", "--total-frames", "200", "--max-frames", "200", "--capacity", "100"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    assert f"video: {tmp_path / 'video.mp4'}" in capsys.readouterr().out.replace("\n", "")
    assert (tmp_path / "video.mp4").read_bytes()[4:8] == b"ftyp"
