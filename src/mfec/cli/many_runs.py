"""What the commands that train many runs have in common: where they run, what became of them, and their videos."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from mfec.cli.stopping import say_how_to_resume
from mfec.errors import MfecError

if TYPE_CHECKING:
    from rich.console import Console

    from mfec.config import DeviceName
    from mfec.experiments.many_runs import Launcher, Run, TrainingOptions
    from mfec.run_directory import RunDirectory

LauncherName = Literal["local", "ray"]


@dataclass(frozen=True)
class LauncherOptions:
    """Where many runs run."""

    launcher: LauncherName = "local"
    """Where the runs run: local for processes of this machine, ray for tasks of a Ray cluster (extra `ray`)."""
    ray_address: Annotated[str | None, arg(metavar="auto|HOST:PORT")] = None
    """With --launcher ray: the cluster; without it, a Ray of its own is started on this machine."""
    cpus_per_run: float = 1.0
    """With --launcher ray: CPUs that a run is given."""
    gpus_per_run: Annotated[float | None, arg(metavar="FLOAT")] = None
    """With --launcher ray: GPUs, or the share of one, that a run is given; 0 unless said, and 1 on cuda."""

    def check(self) -> None:
        """Refuse options that would not be heeded."""
        of_ray = (self.ray_address, self.cpus_per_run, self.gpus_per_run)
        if self.launcher == "local" and of_ray != (None, 1.0, None):
            raise ValueError("--ray-address, --cpus-per-run and --gpus-per-run are for --launcher ray")


def make_launcher(
    where: LauncherOptions, *, folder: Path, device: DeviceName, jobs: int, options: TrainingOptions
) -> Launcher:
    """The launcher that was asked for, of runs below this folder; a GPU that is not there is an error."""
    if where.launcher == "ray":
        from mfec.experiments.launchers.ray import RayLauncher

        return RayLauncher(
            folder=folder,
            options=options,
            address=where.ray_address,
            cpus_per_run=where.cpus_per_run,
            gpus_per_run=float(device == "cuda") if where.gpus_per_run is None else where.gpus_per_run,
            jobs=jobs,
        )
    from mfec.device import refuse_missing
    from mfec.experiments.launchers.local import LocalLauncher

    if device == "cuda":
        refuse_missing(device)
    return LocalLauncher(jobs=jobs, options=options)


def report(runs: Sequence[Run], again: Sequence[str], *, option: str | None = None) -> int:
    """Say which runs failed, or how to go on with those that were stopped; returns the exit status.

    again, option: as for `say_how_to_resume`.
    """
    failed = [run for run in runs if run.state == "failed"]
    for run in failed:
        where = f"; {run.log}" if run.log.exists() else ""
        print(f"mfec: {run.name} failed: {run.reason}{where}", file=sys.stderr)
    stopped = [run for run in runs if run.state.startswith("stopped")]
    if stopped:
        saved = all(run.state == "stopped" for run in stopped)
        return say_how_to_resume(again, saved=saved, option=option)
    return 1 if failed else 0


def film(directory: RunDirectory, seed: int, console: Console, *, device: DeviceName = "cpu", name: str = "") -> None:
    """Film a game of a run that is finished; what is wrong with the video is said, and is no error.

    name: of the run, where there are several. A video that is newer than the checkpoint stays.
    """
    from mfec.experiments.evaluate import evaluate_run

    if name and directory.video.exists() and directory.video.stat().st_mtime > directory.checkpoint.stat().st_mtime:
        return
    try:
        evaluate_run(directory, episodes=1, seed=seed, video=directory.video, device=device)
        said = f"video: {directory.video}"
    except (MfecError, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        said = f"no video of {name}: {error}" if name else f"no video: {error}"
    console.print(said, highlight=False, markup=False, soft_wrap=True)
