"""Train the runs of the screening, and collect their scores.

    python results/screening/run.py --out runs/screening --jobs 8                  # on CPUs, neighbours from cells
    python results/screening/run.py --out runs/screening --jobs 30 --device cuda   # on a GPU, exact neighbours
    python results/screening/run.py --out runs/screening --rows                    # rows for scores.csv, trains nothing

Stopped and started again, it skips finished runs. `--options` names settings other than those below, each in quotes.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro
from mfec.experiments.train_grid import train_grid

from mfec.cli.train import Train
from mfec.config import RunConfig
from mfec.experiments.grid import GridRun
from mfec.experiments.launchers import OWN, HowToTrain, Launcher
from mfec.experiments.launchers.local import LocalGPULauncher, LocalLauncher
from mfec.run_directory import RunDirectory
from mfec.statistics import mean

GAMES = ["ms_pacman", "space_invaders", "qbert", "frostbite", "river_raid"]
SETTINGS = [
    "--gamma 0.99 --kernel inverse --k 50",
    "--gamma 0.99 --kernel inverse --k 50 --episode game",
    "--gamma 0.99 --kernel inverse --k 50 --frame-stack 4",
    "--gamma 0.99 --kernel inverse --k 50 --episode game --frame-stack 4",
    "--gamma 0.98 --kernel inverse --k 50",
    "--gamma 0.995 --kernel inverse --k 50",
]
COLUMNS = ["options", "game", "seed", "frames", "training_last_100", "greedy", "lowest", "highest"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where the runs go, in OUT/SETTINGS/GAME/seed-N")
    parser.add_argument("--options", nargs="+", default=SETTINGS, help="settings to try, as options of `mfec train`")
    parser.add_argument("--games", nargs="+", default=GAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--total-frames", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time; on a GPU, runs in a fleet")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--ignore-memory-limit", action="store_true", help="as for `mfec train`")
    parser.add_argument("--rows", action="store_true", help="print the rows of finished runs, and train nothing")
    given = parser.parse_args()
    # Settings by settings: stopped half way, the first of them are complete.
    runs = [
        run_of(f"{options} --device cuda" if given.device == "cuda" else options, game, seed, given.total_frames)
        for options in given.options
        for seed in given.seeds
        for game in given.games
    ]
    if given.rows:
        print_rows(runs, given.out)
        return 0
    how = HowToTrain(checkpoint_frames=given.total_frames, ignore_memory_limit=given.ignore_memory_limit)
    launcher: Launcher = LocalLauncher(jobs=given.jobs, how=how)
    if given.device == "cuda":
        launcher = LocalGPULauncher(jobs=given.jobs, how=how, log=given.out / OWN / "fleets.txt")
    jobs = train_grid(runs, given.out, launcher)
    for job in jobs:
        if job.state == "failed":
            print(f"{job.run.name} failed: {job.reason}; see {job.log}", file=sys.stderr)
    return int(any(job.state != "finished" for job in jobs))


@dataclass(frozen=True)
class Screened(GridRun):
    """A run, and the options that its rows name."""

    options: str

    @property
    def name(self) -> str:
        """For people."""
        return " ".join(self.place.parts)


def run_of(options: str, game: str, seed: int, total_frames: int) -> Screened:
    """The run of these options, evaluated once, at its end."""
    given = [game, *shlex.split(options), "--evaluate-every", str(total_frames)]
    if "--device cuda" not in options:
        given += ["--index", "cells"]
    command = tyro.cli(Train, args=given)
    config = RunConfig(game, total_frames, seed, command.agent, command.environment, evaluation=command.evaluation)
    place = Path(options.replace("--", "").replace(" ", "-"), game, f"seed-{seed}")
    return Screened(config, place, options)


def print_rows(runs: list[Screened], out: Path) -> None:
    """A row for each evaluation of the runs that have been evaluated."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    for run in runs:
        directory = RunDirectory(out / run.place)
        if not directory.exists:
            continue
        evaluations, episodes = directory.evaluations(), directory.episodes()
        for at, frames in enumerate(evaluations["frames"]):
            games = [
                score for ended, score in zip(episodes["frames"], episodes["return"], strict=True) if ended <= frames
            ]
            greedy, lowest, highest = (evaluations[name][at] for name in ("mean", "lowest", "highest"))
            numbers = int(frames), round(mean(games[-100:]), 1), round(greedy, 2), lowest, highest
            table.writerow([run.options, run.config.env, run.config.seed, *numbers])


if __name__ == "__main__":
    sys.exit(main())
