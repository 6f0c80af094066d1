"""Runs whose states come from a VAE: one that was trained before, or one that the run trains on its first frames."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tyro
from rich.console import Console
from tyro.conf import OmitSubcommandPrefixes

from mfec import MFEC
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.callbacks import Stopped
from mfec.cli import Train, command_for, main
from mfec.cli.train import _again
from mfec.config import EnvConfig, VAEConfig
from mfec.embeddings import VAE
from mfec.embeddings.vae.training import Trainer
from mfec.experiments import vae as experiments_vae
from mfec.experiments.launchers.local import LocalLauncher
from mfec.experiments.lock import locked
from mfec.experiments.many_runs import Run, TrainingOptions, train_runs
from mfec.experiments.ram import needs_of
from mfec.experiments.train import train
from mfec.experiments.vae_directory import VAEDirectoryError
from mfec.run_directory import RunDirectory, RunDirectoryError

from ..waiting import PATIENCE
from .stopping import games_of, outcome, stopped_after, wait_for

pytestmark = pytest.mark.usefixtures("small", "_small_networks")
# A run has the networks of the paper; with these a step takes milliseconds.
RECIPE = VAEConfig(minibatch=4, channels=(4, 4, 4, 4), hidden=16, latents=4)


@pytest.fixture(scope="module")
def _small_networks() -> Iterator[None]:
    small = property(lambda own: replace(RECIPE, frames=own.vae_frames, steps=own.vae_steps))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MFECConfig, "own_vae", small)
        yield


SHORT = ["--total-frames", "1200", "--capacity", "100", "--max-frames", "400", "--no-video"]


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence in which something was refused."""
    error = capsys.readouterr().err
    assert error.startswith("mfec: ")
    assert error.count("\n") == 1
    return error.removeprefix("mfec: ").rstrip()


# -- With an encoder that is there ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, make_encoder, small: None) -> Path:
    """A run of Q*bert, never stopped, with the encoder `vae` beside it."""
    place = tmp_path_factory.mktemp("runs")
    make_encoder(place / "vae")
    assert main(["train", "qbert", *SHORT, "--vae", str(place / "vae"), "--out", str(place / "run")]) == 0
    return place / "run"


def test_states_are_those_of_the_encoder(run):
    config = RunDirectory(run).read_config()
    assert (config.agent.embedding, config.agent.vae) == ("vae", str(run.with_name("vae")))
    agent = MFEC.load(run / "checkpoint")
    assert isinstance(agent.embedding, VAE)
    assert agent.embedding.digest == VAE.load(run.with_name("vae")).digest
    assert agent.memory.tensors()["states"].shape[1] == 8
    assert games_of(run) == 3
    assert 100 < len(agent.memory) <= 300


def test_stopped_and_resumed_it_is_bit_for_bit_the_run_that_was_not(run, tmp_path):
    config = RunDirectory(run).read_config()
    with stopped_after(120):
        train(config, tmp_path / "run", console=Console(file=io.StringIO()))
    arguments = ["train", "qbert", *SHORT, "--vae", config.agent.vae, "--out", str(tmp_path / "run"), "--resume"]
    assert main(arguments) == 0
    assert outcome(tmp_path / "run") == outcome(run)


def test_it_can_be_evaluated_and_played_when_its_encoder_is_gone(run, make_encoder, tmp_path, capsys):
    shutil.copytree(run.parent, tmp_path, dirs_exist_ok=True)
    vae = make_encoder(tmp_path / "moved" / "vae")
    agent = MFEC("qbert", vae=str(vae), capacity=100, seed=0).learn(400)
    agent.save(tmp_path / "saved")
    shutil.rmtree(tmp_path / "moved")
    shutil.rmtree(tmp_path / "vae")
    loaded = MFEC.load(tmp_path / "saved", env="qbert")
    observations = np.random.default_rng(0).integers(0, 256, (3, 84, 84), np.uint8)
    assert np.array_equal(loaded.embedding(observations), agent.embedding(observations))
    assert np.array_equal(
        loaded.predict(observations, deterministic=True)[0], agent.predict(observations, deterministic=True)[0]
    )
    loaded.learn(420).save(tmp_path / "saved")  # it can go on as well
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "1"]) == 0
    assert "agent" in capsys.readouterr().out


@pytest.mark.parametrize("way", ["alone", "processes", "fleet"])
def test_it_goes_on_when_its_encoder_is_gone(run, make_encoder, tmp_path, way):
    """The checkpoint holds it. Its settings stay as they were."""
    vae, out = make_encoder(tmp_path / "vae"), tmp_path / "runs" / "seed-0"
    before = RunDirectory(run).read_config()
    config = replace(before, agent=replace(before.agent, vae=str(vae), index="cuda"))
    with stopped_after(120):
        train(config, out, console=Console(file=io.StringIO()))
    shutil.rmtree(vae)
    needed = needs_of(config, out)
    assert needed == needs_of(replace(config, agent=replace(config.agent, vae=before.agent.vae)))
    where = ["--out", str(out)] if way == "alone" else ["--seeds", "0", "--out", str(out.parent)]
    index = ["--index", "exact" if way == "processes" else "cuda"]
    assert main(["train", "qbert", *SHORT, "--vae", str(vae), *index, *where, "--resume"]) == 0
    assert (out / "episodes.csv").read_bytes() == (run / "episodes.csv").read_bytes()
    assert RunDirectory(out).read_config().agent.vae == str(vae)
    assert MFEC.load(out / "checkpoint").frames == 1200


def test_the_name_of_the_environment_stands_in_the_name_of_the_encoder(make_encoder, tmp_path):
    """In processes of their own the runs are what they would be alone."""
    for seed, env in enumerate(("qbert", "ms_pacman")):
        make_encoder(tmp_path / "vaes" / env, seed=seed)
    arguments = ["--total-frames", "400", "--capacity", "50", "--max-frames", "200", "--no-video"]
    arguments += ["--vae", str(tmp_path / "vaes" / "{env}")]
    assert main(["train", "qbert", "ms_pacman", *arguments, "--jobs", "2", "--out", str(tmp_path / "both")]) == 0
    for env in ("qbert", "ms_pacman"):
        assert RunDirectory(tmp_path / "both" / env).read_config().agent.vae == str(tmp_path / "vaes" / env)
    assert main(["train", "ms_pacman", *arguments, "--out", str(tmp_path / "alone")]) == 0
    assert outcome(tmp_path / "both" / "ms_pacman") == outcome(tmp_path / "alone")


@pytest.mark.parametrize(("env", "arguments", "message"), [
    ("CartPole-v1", [], "the environment has float32 of shape (4,)"),
    ("qbert", ["--frame-stack", "4"], "the environment has uint8 of shape (4, 84, 84)"),
    ("CartPole-v1", ["--seeds", "0", "1"], "the environment has float32 of shape (4,)"),
    ("CartPole-v1", ["--seeds", "0", "1", "--index", "cuda"], "the environment has float32 of shape (4,)"),
])  # fmt: skip
def test_an_encoder_that_does_not_fit_is_refused_once(encoder, tmp_path, capsys, env, arguments, message):
    command = ["train", env, *SHORT[:4], "--vae", str(encoder), *arguments, "--out", str(tmp_path / "run")]
    assert main(command) == 1
    assert refused(capsys).endswith(message)
    assert not (tmp_path / "run").exists()


def test_an_encoder_is_for_no_other_embedding(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "qbert", "--embedding", "random_projection", "--vae", "here", "--out", str(tmp_path / "run")])
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "an encoder ('here') is for the embedding vae, not for random_projection" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("seeds", [[], ["--seeds", "0", "1"]], ids=["alone", "several"])
def test_an_encoder_that_is_not_there_is_refused_once(tmp_path, capsys, seeds):
    command = ["train", "qbert", *SHORT, "--vae", str(tmp_path / "nowhere"), *seeds, "--out", str(tmp_path / "run")]
    assert main(command) == 1
    assert refused(capsys).startswith(f"there is no encoder '{tmp_path / 'nowhere'}'")
    assert not (tmp_path / "run").exists()


def test_without_torch_nothing_is_begun(encoder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["train", "qbert", *SHORT, "--vae", str(encoder), "--out", str(tmp_path / "run")]) == 1
    assert refused(capsys).endswith("needs the extra `torch`: pip install 'mfec[torch]'")
    assert not (tmp_path / "run").exists()


# -- With a VAE of its own --------------------------------------------------------------------------------------------

AGENT = MFECConfig(embedding="vae", capacity=100, index="cuda", vae_frames=640, vae_steps=105)
OWN = RunConfig("qbert", 1640, 0, AGENT, EnvConfig(max_frames=300))


def begin(out: Path, *, resume: bool = False) -> str:
    """Train the run OWN; what it said."""
    said = io.StringIO()
    train(OWN, out, resume=resume, console=Console(file=said, width=300))
    return said.getvalue()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, small: None, _small_networks: None) -> Path:
    """A run of Q*bert that trained its own VAE, never stopped."""
    out = tmp_path_factory.mktemp("own")
    begin(out)
    return out


def test_the_frames_of_its_vae_are_its_first(own):
    run = RunDirectory(own)
    ends, lengths = run.episodes()["frames"], run.episodes()["length_frames"]
    assert len(ends) >= 3
    assert ends[0] == 640 + lengths[0]
    progress = run.progress()["frames"]
    assert (progress[0], progress[-1]) == (644, 1640)
    assert len(progress) > 100  # they lie a hundredth of what the agent has played apart; its VAE's frames do not count
    assert MFEC.load(run.checkpoint).frames == 1640
    assert MFEC.load(run.checkpoint).embedding.digest == VAE.load(own / "vae").digest  # type: ignore[attr-defined]
    assert VAE.load(own).digest == VAE.load(own / "vae").digest  # a run is as good a name for its encoder


def test_its_settings_are_those_of_its_vae_too(own):
    table = tomllib.loads((own / "config.toml").read_text())["agent"]
    assert {"vae_frames": 640, "vae_steps": 105}.items() <= table.items()
    assert RunDirectory(own).read_config() == replace(OWN, agent=replace(OWN.agent, truncated="write"))


def test_its_frames_are_deleted_and_not_collected_again(own, tmp_path, monkeypatch):
    assert sorted(path.name for path in (own / "vae").iterdir()) == [
        "checkpoint", "config.toml", "decoder.safetensors", "encoder.safetensors", "loss.csv",
    ]  # fmt: skip
    shutil.copytree(own, tmp_path / "begun")
    shutil.rmtree(tmp_path / "begun" / "checkpoint")  # as if it had been killed before the first one
    (tmp_path / "begun" / "vae" / "frames.npy").write_text("left by a kill")
    monkeypatch.setattr(experiments_vae, "collect_frames", lambda *_, **__: pytest.fail("it collects again"))
    assert "vae has all of its 105 steps\n" in begin(tmp_path / "begun", resume=True)
    assert not (tmp_path / "begun" / "vae" / "frames.npy").exists()
    assert outcome(tmp_path / "begun") == outcome(own)
    shutil.rmtree(tmp_path / "begun" / "vae")
    assert "has all of its 1,640 frames\n" in begin(tmp_path / "begun", resume=True)  # the agent has the encoder


KILLED = """
    from mfec.algorithms import RunConfig
    from mfec.algorithms.mfec import MFECConfig
    from mfec.config import EnvConfig, EvaluationConfig, VAEConfig
    from mfec.experiments.train import train
    MFECConfig.own_vae = {vae!r}
    train({config!r}, sys.argv[1])
"""


def goes_on_as_if_it_had_not_been_stopped(out: Path, own: Path) -> None:
    assert not (out / "vae" / "encoder.safetensors").exists(), "it had ended before"
    with pytest.raises(VAEDirectoryError, match=r"vae already holds a VAE: --resume goes on with it"):
        begin(out)
    begin(out, resume=True)
    assert outcome(out) == outcome(own)
    assert VAE.load(out).digest == VAE.load(own).digest


def test_killed_while_its_vae_is_trained_it_ends_as_if_it_had_not_been(own, tmp_path, start_small):
    process = start_small(KILLED.format(config=OWN, vae=replace(RECIPE, frames=640, steps=105)), str(tmp_path))
    wait_for((tmp_path / "vae" / "checkpoint" / "manifest.json").exists, process)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    goes_on_as_if_it_had_not_been_stopped(tmp_path, own)


@contextlib.contextmanager
def asked_to_stop_in_a_chunk() -> Iterator[None]:
    """While a VAE is trained, this process is asked to stop."""
    finish = Trainer.finish_chunk

    def ask_to_stop(trainer: Trainer) -> np.ndarray:
        os.kill(os.getpid(), signal.SIGTERM)
        return finish(trainer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "finish_chunk", ask_to_stop)
        yield


def test_asked_to_stop_while_its_vae_is_trained_it_ends_as_if_it_had_not_been(own, tmp_path):
    with asked_to_stop_in_a_chunk(), pytest.raises(Stopped):
        begin(tmp_path)
    goes_on_as_if_it_had_not_been_stopped(tmp_path, own)


def test_asked_to_stop_while_the_vaes_of_a_fleet_are_trained_no_run_begins(tmp_path):
    other = replace(OWN, agent=replace(AGENT, embedding="random_projection"))
    runs = [Run("own", OWN, tmp_path / "own"), Run("other", other, tmp_path / "other")]
    with asked_to_stop_in_a_chunk():
        train_runs(runs, LocalLauncher(jobs=2, options=TrainingOptions()), console=Console(file=io.StringIO()))
    assert [run.state for run in runs] == ["stopped", "stopped"]
    assert not (tmp_path / "other").exists()
    assert (tmp_path / "own" / "vae" / "checkpoint" / "manifest.json").exists()


def train_in_fleet(run: Run) -> str:
    """What was said."""
    said = io.StringIO()
    train_runs([run], LocalLauncher(jobs=1, options=TrainingOptions()), console=Console(file=said, width=300))
    return said.getvalue()


def test_in_a_fleet_it_is_the_run_alone(own, tmp_path):
    only = Run("only", OWN, tmp_path)
    said = train_in_fleet(only)
    assert only.state == "finished", said
    assert "step 105/105" in said
    assert not (tmp_path / "vae" / "frames.npy").exists()
    games, _, _, tensors = outcome(tmp_path)
    assert (games, tensors) == (outcome(own)[0], outcome(own)[3])
    assert VAE.load(tmp_path).digest == VAE.load(own).digest


def test_one_that_another_process_trains_is_refused_before_its_vae_is_trained(tmp_path):
    with locked(tmp_path / "run"):
        only = Run("only", OWN, tmp_path / "run")
        said = train_in_fleet(only)
        assert (only.state, "in use by process" in only.reason) == ("failed", True)
        assert only.reason in said
    with locked(tmp_path / "run" / "vae"), pytest.raises(RunDirectoryError, match="in use by process"):
        begin(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_the_command_draws_the_vae_of_the_run(tmp_path, capsys):
    arguments = ["--embedding", "vae", "--vae-frames", "640", "--vae-steps", "1", "--total-frames", "1640"]
    settings = ["--capacity", "100", "--max-frames", "400", "--no-video", "--out", str(tmp_path)]
    assert main(["train", "qbert", *arguments, *settings]) == 0
    said = capsys.readouterr().out
    for name in ("vae/loss.png", "vae/reconstructions.png", "curve.png"):
        assert f": {tmp_path / name}\n" in said
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
    agent = RunDirectory(tmp_path).read_config().agent
    assert (agent.vae_frames, agent.vae_steps) == (640, 1)
    assert len((tmp_path / "vae" / "loss.csv").read_text().splitlines()) == 2
    assert main(["plot", str(tmp_path), "--out", str(tmp_path / "again.png")]) == 0


@pytest.mark.parametrize("several", [[], ["--seeds", "0", "1"], ["--seeds", "0", "1", "--index", "cuda"]])
def test_too_few_frames_for_a_vae_of_its_own_are_refused_once(tmp_path, capsys, monkeypatch, several):
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process is started"))
    arguments = ["--embedding", "vae", "--total-frames", "1000000", *several, "--out", str(tmp_path / "run")]
    assert main(["train", "qbert", *arguments]) == 1
    said = refused(capsys)
    assert said.startswith("the first 1,000,000 frames train the VAE, so total_frames must be more than that, not ")
    assert said.endswith("or name an encoder (--vae)")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("several", [[], ["--seeds", "0", "1"], ["--seeds", "0", "1", "--index", "cuda"]])
def test_a_vae_of_its_own_needs_pictures(tmp_path, capsys, monkeypatch, several):
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process is started"))
    arguments = ["--embedding", "vae", "--total-frames", "1000001", *several, "--out", str(tmp_path / "run")]
    assert main(["train", "CartPole-v1", "--capacity", "10", *arguments]) == 1
    assert refused(capsys).startswith("a VAE is trained on pictures of bytes, and these observations are Box(")
    assert not (tmp_path / "run").exists()


# -- The command line -------------------------------------------------------------------------------------------------


def parse(arguments: list[str]) -> Train:
    command = tyro.cli(command_for(arguments), args=arguments, config=(OmitSubcommandPrefixes,)).command
    assert isinstance(command, Train)
    return command


@pytest.mark.parametrize("arguments", [
    ["--embedding", "vae", "--vae-frames", "5000", "--vae-steps", "700", "--total-frames", "6000"],
    ["--vae", "runs/vae/{env}", "--index", "cuda", "--seeds", "3", "4"],
    ["--embedding", "vae", "--vae", "it's here", "--seed", "3", "--no-video", "--checkpoint-frames", "5"],
    ["--embedding", "identity", "--frame-stack", "4", "--epsilon", "1e-05", "--ignore-memory-limit"],
    ["--launcher", "ray", "--ray-address", "auto", "--cpus-per-run", "2.0", "--total-frames", "5000"],
])  # fmt: skip
def test_what_goes_on_with_a_run_asks_for_the_same_run(arguments):
    given = parse(["train", "qbert", "ms_pacman", *arguments, "--out", "here"])
    again = _again(dict.fromkeys(given.envs, given), Path("here"))
    assert parse(again) == given
    assert parse([*again, "--resume"]) == replace(given, resume=True)


THREADS = """
    import os
    import gymnasium

    class Threads(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            print("threads", os.environ.get("OMP_NUM_THREADS"), os.environ.get("MFEC_THREADS"), flush=True)
            return 0, {}

        def step(self, action):
            return 1, 1.0, True, False, {}

    gymnasium.register("Threads-v0", entry_point=Threads)
"""


@pytest.mark.parametrize(("given", "threads"), [(None, "1"), ("3", "3")])
def test_runs_side_by_side_have_one_thread_each_unless_the_user_has_set_others(tmp_path, monkeypatch, given, threads):
    (tmp_path / "threads_env.py").write_text(textwrap.dedent(THREADS))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("OMP_NUM_THREADS", "MFEC_THREADS"):
        monkeypatch.delenv(name, raising=False)
        if given:
            monkeypatch.setenv(name, given)
    settings = ["--total-frames", "3", "--capacity", "9", "--no-video", "--out", str(tmp_path / "run")]
    assert main(["train", "threads_env:Threads-v0", "--seeds", "0", *settings]) == 0
    assert f"threads {threads} {threads}\n" in (tmp_path / "run" / "seed-0" / "log.txt").read_text()
    assert [os.environ.get(name) for name in ("OMP_NUM_THREADS", "MFEC_THREADS")] == [given, given]
