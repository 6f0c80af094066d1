"""Training VAEs: random frames in, encoders out. On a GPU several are trained side by side."""

from __future__ import annotations

import csv
import os
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from mfec import __version__
from mfec.checkpoint import MANIFEST, CheckpointError, read_checkpoint, write_checkpoint
from mfec.config import DeviceName, EnvConfig, RunConfig, VAEConfig
from mfec.embeddings.vae import NEEDS_TORCH, VAE
from mfec.embeddings.vae.files import write_network
from mfec.errors import MfecError
from mfec.experiments.display import Line, show_time
from mfec.experiments.frames import collect_frames
from mfec.experiments.stopping import Stopped, stop_signals
from mfec.run_directory import RunDirectory, vae_config
from mfec.toml import flat, to_toml

if TYPE_CHECKING:
    from mfec.embeddings.vae.training import Trainer

LOSS = ("step", "correction", "communication", "seconds")
EVERY_STEPS = 1_000  # between rows of loss.csv
SAVE_SECONDS = 30.0
KIND = "vae training"


class VAEDirectoryError(MfecError):
    """A directory that a VAE cannot be trained in."""


class VAEDirectory:
    """What `mfec vae train` leaves: settings, networks, costs, and what it needs to go on."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.toml"
        self.loss_file = self.path / "loss.csv"
        self.loss_picture = self.path / "loss.png"
        self.reconstructions = self.path / "reconstructions.png"
        self.checkpoint = self.path / "checkpoint"

    @property
    def finished(self) -> bool:
        """Whether the encoder is there."""
        return (self.path / "encoder.safetensors").is_file()

    def costs(self) -> dict[str, list[float]]:
        """The table of costs, by column."""
        try:
            with self.loss_file.open(newline="") as stream:
                header, *rows = csv.reader(stream)
            return {name: [float(row[i]) for row in rows if len(row) == len(header)] for i, name in enumerate(header)}
        except (OSError, ValueError) as error:
            raise VAEDirectoryError(f"{self.loss_file} cannot be read: {error}") from None


@dataclass(frozen=True)
class VAEJob:
    """One VAE that is to be trained."""

    env: str
    out: Path
    config: VAEConfig = field(default_factory=VAEConfig)
    environment: EnvConfig = field(default_factory=EnvConfig)
    seed: int = 0
    data: Path | None = None  # where the frames lie or will lie; None stands for `out`

    def settings(self) -> dict[str, Any]:
        """What makes the VAE."""
        environment = {name: value for name, value in vars(self.environment).items() if name != "n_envs"}
        return {"env": self.env, "seed": self.seed, "recipe": asdict(self.config), "environment": environment}


def vae_of_run(config: RunConfig, directory: RunDirectory) -> VAEJob:
    """The VAE that a run trains before it begins."""
    return VAEJob(config.env, directory.vae, config.vae, config.environment, config.seed)


def train_vaes(
    jobs: Sequence[VAEJob], *, device: DeviceName = "cpu", resume: bool = False, console: Console | None = None
) -> None:
    """Collect frames, train, and write the networks of all jobs; on a GPU they are trained side by side."""
    console = console or Console()
    _refuse_missing_device(device)
    for job in jobs:
        _begin(job, resume)
    with stop_signals() as stop:
        left = [job for job in jobs if not _is_done(job, console)]
        frames = [
            collect_frames(
                job.env, job.environment, job.config.frames, job.seed, job.data or job.out, console=console, stop=stop
            )
            for job in left
        ]
        lessons = [_Lesson(job, own, device) for job, own in zip(left, frames, strict=True)]
        for together in [lessons] if device == "cuda" else [[lesson] for lesson in lessons]:
            _train(together, console, stop)


class _Lesson:
    """A VAE in training, and what it writes."""

    def __init__(self, job: VAEJob, frames: NDArray[np.uint8], device: str) -> None:
        from mfec.embeddings.vae.training import Trainer

        self.job = job
        self.directory = VAEDirectory(job.out)
        self.trainer: Trainer = Trainer(frames, job.config, seed=job.seed, device=device)
        self.seconds = 0.0
        self._rows: list[tuple[float, ...]] = []
        self._recent: list[NDArray[np.float64]] = []
        self.cost = np.full(2, np.nan)
        if (self.directory.checkpoint / MANIFEST).is_file():
            self._restore()

    def take_chunk(self, seconds: float) -> None:
        """Take in the steps that were begun."""
        costs = self.trainer.finish_chunk()
        self.seconds += seconds
        if not np.isfinite(costs).all():
            raise VAEDirectoryError(
                f"the costs are no longer finite after step {self.trainer.steps:,}: try a smaller step size"
            )
        self._recent.append(costs)
        self.cost = np.concatenate(self._recent[-5:]).mean(axis=0)
        if self.trainer.steps % EVERY_STEPS == 0 or self.trainer.done:
            mean = np.concatenate(self._recent).mean(axis=0)
            self._rows.append((self.trainer.steps, *mean.tolist(), round(self.seconds, 2)))
            self._recent = []

    def save(self) -> None:
        """Keep what the training needs to go on."""
        state = {
            "settings": self.job.settings(),
            "chunks": self.trainer.chunks,
            "seconds": self.seconds,
            "rows": self._rows,
            "recent": [costs.tolist() for costs in self._recent],
        }
        write_checkpoint(self.directory.checkpoint, kind=KIND, state=state, tensors=self.trainer.tensors())
        lines = [",".join(LOSS), *(",".join(f"{number:.10g}" for number in row) for row in self._rows)]
        draft = self.directory.loss_file.with_suffix(".csv.draft")
        draft.write_text("\n".join(lines) + "\n")
        os.replace(draft, self.directory.loss_file)

    def write_networks(self) -> None:
        """Write encoder and decoder; the encoder, last, tells that all is done."""
        networks = self.trainer.networks()
        write_network(self.directory.path, "decoder", networks["decoder"], self.trainer.architecture)
        write_network(self.directory.path, "encoder", networks["encoder"], self.trainer.architecture)

    def _restore(self) -> None:
        state, tensors = read_checkpoint(self.directory.checkpoint, kind=KIND)
        try:
            if _all_but_steps(state["settings"]) != _all_but_steps(_as_json(self.job.settings())):
                raise VAEDirectoryError(f"{self.directory.checkpoint} is of another VAE: its settings differ")
            self.trainer.restore(state["chunks"], tensors)
            self.seconds, self._rows = state["seconds"], [tuple(row) for row in state["rows"]]
            self._recent = [np.array(costs) for costs in state["recent"]]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self.directory.checkpoint} is no complete training: {error}") from None


def _train(lessons: list[_Lesson], console: Console, stop: list[int]) -> None:
    """Train these VAEs together, chunk by chunk."""
    saved_at = time.perf_counter()
    try:
        with Line(console) as line:
            while any(not lesson.trainer.done for lesson in lessons):
                began = time.perf_counter()
                at_work = [lesson for lesson in lessons if not lesson.trainer.done]
                for lesson in at_work:
                    lesson.trainer.start_chunk()
                for lesson in at_work:
                    lesson.take_chunk(time.perf_counter() - began)
                    if lesson.trainer.done:
                        lesson.save()
                        lesson.write_networks()
                _show(lessons, line)
                if stop:
                    raise Stopped
                if time.perf_counter() - saved_at > SAVE_SECONDS:
                    for lesson in at_work:
                        lesson.save()
                    saved_at = time.perf_counter()
    except Stopped:
        for lesson in lessons:
            if not lesson.trainer.done:
                lesson.save()
        raise


def _show(lessons: list[_Lesson], line: Line) -> None:
    seen = sum(lesson.trainer.steps * lesson.job.config.minibatch for lesson in lessons)
    total = sum(lesson.job.config.steps * lesson.job.config.minibatch for lesson in lessons)
    speed = line.speed(seen, done=seen >= total)
    if speed is None:
        return
    whose = [f"{lesson.job.env}: " if len(lessons) > 1 else "" for lesson in lessons]
    steps = [f"step {lesson.trainer.steps:,}/{lesson.job.config.steps:,}" for lesson in lessons]
    costs = [
        f"{who}cost {lesson.cost.sum():,.1f} = correction {lesson.cost[0]:,.1f} + communication {lesson.cost[1]:,.1f}"
        for who, lesson in zip(whose, lessons, strict=True)
    ]
    left = show_time(int((total - seen) / speed)) if speed else "-"
    line.show([steps[0], f"{speed:,.0f} frames/s", f"left {left}", *costs])


def _begin(job: VAEJob, resume: bool) -> None:
    """Write the settings of a job, or see that they are those of the one that goes on."""
    directory = VAEDirectory(job.out)
    if not directory.config_file.exists():
        try:
            directory.path.mkdir(parents=True, exist_ok=True)
            draft = directory.config_file.with_suffix(".toml.draft")
            draft.write_text(to_toml({"mfec": __version__, **job.settings()}))
            os.replace(draft, directory.config_file)
        except OSError as error:
            raise VAEDirectoryError(f"cannot train a VAE in {job.out}: {error}") from None
        return
    if not resume:
        raise VAEDirectoryError(f"{job.out} already holds a VAE: --resume goes on with it, or choose another --out")
    try:
        before = tomllib.loads(directory.config_file.read_text())
        before.pop("mfec")
        vae_config(before["recipe"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise VAEDirectoryError(f"{directory.config_file} is not that of a VAE: {error}") from None
    now = _as_json(job.settings())
    for name, value in flat(now).items():
        if name != "steps" and flat(before).get(name) != value:
            raise VAEDirectoryError(
                f"{job.out} was begun with {name} = {flat(before).get(name)}, it cannot go on with {value}"
            )
    directory.config_file.write_text(to_toml({"mfec": __version__, **job.settings()}))


def _is_done(job: VAEJob, console: Console) -> bool:
    """Whether the job's steps were all made before."""
    directory = VAEDirectory(job.out)
    if not directory.finished:
        return False
    steps = directory.costs()["step"]
    if not steps or steps[-1] < job.config.steps:
        return False
    VAE.load(job.out)  # says if it is damaged
    console.print(f"{job.out} has all of its {job.config.steps:,} steps", highlight=False, markup=False, soft_wrap=True)
    return True


def _refuse_missing_device(device: str) -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ImportError(NEEDS_TORCH) from None
    if device == "cuda":
        from mfec.device import start_engine

        start_engine(device)


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings with lists for tuples, as a file gives them back."""
    return {
        name: {key: list(v) if isinstance(v, tuple) else v for key, v in value.items()}
        if isinstance(value, dict)
        else value
        for name, value in settings.items()
    }


def _all_but_steps(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flat(settings).items() if name != "steps"}
