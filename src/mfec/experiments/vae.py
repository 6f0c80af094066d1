"""Training VAEs: random frames in, encoders out. On a GPU several are trained side by side."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.callbacks import Stopped
from mfec.checkpoint import MANIFEST, CheckpointError, read_checkpoint, write_checkpoint
from mfec.config import UNSAID, DeviceName
from mfec.device import refuse_missing
from mfec.embeddings import VAE, check_pictures
from mfec.embeddings.vae import Architecture
from mfec.embeddings.vae.files import write_network
from mfec.experiments.frames import collect_frames, delete_frames, observation_space
from mfec.experiments.lock import locked
from mfec.experiments.stopping import stop_signals
from mfec.experiments.vae_directory import VAEDirectory, VAEDirectoryError, VAEJob, vae_of_run
from mfec.run_directory import RunDirectory
from mfec.terminal import Line
from mfec.toml import flat
from mfec.units import show_time

if TYPE_CHECKING:
    from mfec.embeddings.vae.training import Trainer

EVERY_STEPS = 1_000  # between rows of loss.csv
SAVE_SECONDS = 30.0
KIND = "vae training"


def train_vaes(
    jobs: Sequence[VAEJob], *, device: DeviceName = "cpu", resume: bool = False, console: Console | None = None
) -> None:
    """Collect frames, train, and write the networks of all jobs; on a GPU they are trained side by side.

    No other process trains in their directories meanwhile.
    """
    console = console or Console()
    refuse_missing(device)
    for job in jobs:
        _refuse_what_is_no_picture(job)
    with contextlib.ExitStack() as locks:
        for job in jobs:
            locks.enter_context(locked(job.out, "train a VAE"))
            VAEDirectory(job.out).begin(job, resume=resume)
        stop = locks.enter_context(stop_signals())
        left = [job for job in jobs if not _is_done(job, console)]
        frames = [
            collect_frames(
                job.env,
                job.environment,
                job.config.frames,
                job.seed,
                job.data or job.out,
                console=console,
                stop=stop,
                lock=job.data is not None and job.data.resolve() != job.out.resolve(),
            )
            for job in left
        ]
        lessons = [_Lesson(job, own, device) for job, own in zip(left, frames, strict=True)]
        for together in [lessons] if device == "cuda" else [[lesson] for lesson in lessons]:
            _train(together, console, stop)
        if stop:
            raise Stopped


def train_own_vaes(
    runs: Sequence[tuple[RunConfig, RunDirectory]], *, device: DeviceName, resume: bool, console: Console
) -> None:
    """Train the VAEs of runs that begin with one of their own. Their frames, 7 GB each, are not kept."""
    jobs = [vae_of_run(config, directory) for config, directory in runs]
    train_vaes(jobs, device=device, resume=resume, console=console)
    for job in jobs:
        delete_frames(job.out)


class _Lesson:
    """A VAE in training, and what it writes. Its checkpoints are those of whole chunks, so that steps can be added."""

    def __init__(self, job: VAEJob, frames: NDArray[np.uint8], device: str) -> None:
        from mfec.embeddings.vae.training import CHUNK, Trainer

        self.job = job
        self._chunk = CHUNK
        self.directory = VAEDirectory(job.out)
        self.trainer: Trainer = Trainer(frames, job.config, seed=job.seed, device=device)
        self.seconds = 0.0
        self.cost = np.full(2, np.nan)
        self._rows: list[tuple[float, ...]] = []
        self._recent: list[NDArray[np.float64]] = []  # costs since the last row
        if (self.directory.checkpoint / MANIFEST).is_file():
            self._restore()

    def start_chunk(self) -> None:
        """Begin the next steps."""
        if self.job.config.steps - self.trainer.steps < self._chunk:
            self.save()
        self.trainer.start_chunk()

    def take_chunk(self, began: float) -> None:
        """Take in the steps that were begun, at the time `began`."""
        costs = self.trainer.finish_chunk()
        self.seconds += time.perf_counter() - began
        if not np.isfinite(costs).all():
            raise VAEDirectoryError(
                f"the costs of {self.job.env} are no longer finite after step {self.trainer.steps:,}: "
                "try a smaller --step-size"
            )
        self._recent.append(costs)
        self.cost = np.concatenate(self._recent[-5:]).mean(axis=0)
        if self.trainer.steps % EVERY_STEPS == 0:
            self._rows.append(self._row())
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
        self.directory.write_costs(self._rows)

    def finish(self) -> None:
        """Write costs, decoder and encoder; the encoder, last, tells that all is done."""
        if self.trainer.steps % self._chunk == 0:
            self.save()
        self.directory.write_costs([*self._rows, *([self._row()] if self._recent else [])])
        networks = self.trainer.networks()
        write_network(self.directory.path, "decoder", networks["decoder"], self.trainer.architecture)
        write_network(self.directory.path, "encoder", networks["encoder"], self.trainer.architecture)

    def _row(self) -> tuple[float, ...]:
        mean = np.concatenate(self._recent).mean(axis=0)
        return (self.trainer.steps, *mean.tolist(), round(self.seconds, 2))

    def _restore(self) -> None:
        state, tensors = read_checkpoint(self.directory.checkpoint, kind=KIND)
        try:
            if _all_but_steps(state["settings"]) != _all_but_steps(self.job.settings()):
                raise VAEDirectoryError(f"{self.directory.checkpoint} is of another VAE: its settings differ")
            if self._chunk * state["chunks"] > self.job.config.steps:
                made, asked = self._chunk * state["chunks"], self.job.config.steps
                raise VAEDirectoryError(
                    f"{self.job.out} has made {made:,} steps already, more than the {asked:,} of now"
                )
            self.trainer.restore(state["chunks"], tensors)
            self.seconds, self._rows = state["seconds"], [tuple(row) for row in state["rows"]]
            self._recent = [np.array(costs) for costs in state["recent"]]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self.directory.checkpoint} is no complete training: {error}") from None


def _train(lessons: list[_Lesson], console: Console, stop: list[int]) -> None:
    """Train these VAEs together, chunk by chunk."""
    for lesson in lessons:
        if lesson.trainer.done:  # it was killed when it had only its networks left to write
            lesson.finish()
    saved_at = time.perf_counter()
    with Line(console) as line:
        while at_work := [lesson for lesson in lessons if not lesson.trainer.done]:
            began = time.perf_counter()
            for lesson in at_work:
                lesson.start_chunk()
            for lesson in at_work:
                lesson.take_chunk(began)
                if lesson.trainer.done:
                    lesson.finish()
            _show(lessons, line)
            left = [lesson for lesson in at_work if not lesson.trainer.done]
            if stop or time.perf_counter() - saved_at > SAVE_SECONDS:
                for lesson in left:
                    lesson.save()
                saved_at = time.perf_counter()
            if stop:
                raise Stopped


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


def _refuse_what_is_no_picture(job: VAEJob) -> None:
    """An error where no VAE of this recipe can see what the environment shows; before anything is played."""
    space = observation_space(job.env, job.environment)
    check_pictures(space)
    Architecture(space.shape or (), job.config.channels, job.config.hidden, job.config.latents)


def _is_done(job: VAEJob, console: Console) -> bool:
    """Whether the job's steps were all made before."""
    if not VAEDirectory(job.out).has_made(job.config.steps):
        return False
    VAE.load(job.out)  # says if it is damaged
    console.print(f"{job.out} has all of its {job.config.steps:,} steps", highlight=False, markup=False, soft_wrap=True)
    return True


def _all_but_steps(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (UNSAID | flat(settings)).items() if name != "steps"}
