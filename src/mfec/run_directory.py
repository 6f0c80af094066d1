"""The run directory: settings, tables, checkpoint, pictures of one run."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mfec import __version__
from mfec.algorithms import RunConfig, algorithm
from mfec.checkpoint import CHECKPOINT, MANIFEST
from mfec.config import OWN_VAE, EnvConfig, EvaluationConfig
from mfec.errors import MfecError
from mfec.files import write_whole
from mfec.toml import flat, to_toml

EPISODES = ("frames", "episode", "return", "length_frames")
EVALUATIONS = ("frames", "games", "mean", "standard_error", "lowest", "highest", "mean_length_frames")
PROGRESS = ("frames", "seconds", "steps_per_second", "return_mean_100")
"""Of every run; the columns of what its agent logs come after them."""


class RunDirectoryError(MfecError):
    """A run directory that cannot be used as asked."""


class RunDirectory:
    """Paths and tables of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.toml"
        self.episodes_file = self.path / "episodes.csv"
        self.progress_file = self.path / "progress.csv"
        self.evaluations_file = self.path / "evaluations.csv"  # of a run that is evaluated while it trains
        self.checkpoint = self.path / CHECKPOINT
        self.history = self.path / "history"
        self.curve = self.path / "curve.png"
        self.video = self.path / "video.mp4"
        self.vae = self.path / OWN_VAE  # where the run trains one of its own

    @property
    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.config_file.exists()

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on from."""
        return (self.checkpoint / MANIFEST).exists()

    def create(self, config: RunConfig) -> None:
        """Begin a run here: its settings and empty tables."""
        try:
            self.create_tables(anew=True)
            self.write_config(config, durable=False)  # there is nothing to lose yet
        except OSError as error:
            raise RunDirectoryError(f"cannot begin a run in {self.path}: {error}") from None

    def create_tables(self, *, anew: bool = False) -> None:
        """Make the tables that are not there yet, or all of them anew."""
        self.path.mkdir(parents=True, exist_ok=True)
        for file, columns in ((self.episodes_file, EPISODES), (self.progress_file, PROGRESS)):
            if anew or not file.exists():
                write_whole(file, ",".join(columns) + "\n")

    def progress_columns(self, columns: list[str]) -> list[str]:
        """The columns of the table of progress: those that it has, and these while it has no rows."""
        header, *rows = _read_lines(self.progress_file)
        if rows:
            return header.split(",")
        _write_lines(self.progress_file, [",".join(columns)])
        return columns

    def write_config(self, config: RunConfig, *, durable: bool = True) -> None:
        """Write `config.toml`, whole or not at all: a directory that has one is a run."""
        write_whole(self.config_file, to_toml({"mfec": __version__, **_settings(config)}), durable=durable)

    def read_config(self) -> RunConfig:
        """The settings of the run."""
        if not self.config_file.is_file():
            raise RunDirectoryError(f"{self.path} is no run directory: config.toml is missing")
        try:
            values = tomllib.loads(self.config_file.read_text(encoding="utf-8"))
            values.pop("mfec")
            agent = algorithm(values["algorithm"]).settings(**values.pop("agent"))
            environment = EnvConfig(**values.pop("environment"))
            evaluation = EvaluationConfig(**values.pop("evaluation", {}))
            return RunConfig(**values, agent=agent, environment=environment, evaluation=evaluation)
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise RunDirectoryError(f"{self.config_file} cannot be read: {error}") from None

    def check_same(self, config: RunConfig) -> None:
        """Refuse to go on with other settings; only what does not change a run may change.

        That is the number of frames, the device, how often it is evaluated, and what its algorithm says.
        """
        before = self.read_config()
        if before.algorithm != config.algorithm:  # else it would be refused by one of the settings that they share
            raise RunDirectoryError(
                f"{self.path} was begun with algorithm = {before.algorithm}, it cannot go on with {config.algorithm}"
            )
        ours, theirs = flat(_settings(before)), flat(_settings(config))
        free = {"total_frames", "device", "evaluate_every", *config.kind.may_differ(before, config)}
        for name, value in theirs.items():
            if name not in free and value is not None and ours.get(name, value) != value:
                raise RunDirectoryError(
                    f"{self.path} was begun with {name} = {ours[name]}, it cannot go on with {value}"
                )

    def cut_tables(self, games: int, frames: int) -> None:
        """Drop what was written after the checkpoint; the run will write it again."""
        header, *rows = _read_lines(self.episodes_file)
        if len(rows) < games:
            raise RunDirectoryError(f"{self.episodes_file} has {len(rows)} games, the checkpoint {games}")
        _write_lines(self.episodes_file, [header, *rows[:games]])
        header, *rows = _read_lines(self.progress_file)
        columns = header.split(",")
        kept = [row for row in rows if row.count(",") + 1 == len(columns) and int(row.partition(",")[0]) <= frames]
        _write_lines(self.progress_file, [header, *kept])
        if self.evaluations_file.exists():
            header, *rows = _read_lines(self.evaluations_file)
            _write_lines(self.evaluations_file, [header, *(row for row in rows if int(row.split(",")[0]) <= frames)])

    def episodes(self) -> dict[str, list[float]]:
        """The table of finished games, by column."""
        return _read_table(self.episodes_file)

    def progress(self) -> dict[str, list[float]]:
        """The table of progress, by column."""
        return _read_table(self.progress_file)

    def evaluations(self) -> dict[str, list[float]]:
        """The table of evaluations, by column; without rows where there were none."""
        if not self.evaluations_file.exists():
            return {name: [] for name in EVALUATIONS}
        return _read_table(self.evaluations_file)

    def add_evaluation(self, row: dict[str, object]) -> None:
        """A row for the table of evaluations, which is there from the first one on."""
        try:
            new = not self.evaluations_file.exists()
            with self.evaluations_file.open("a") as table:
                for line in [EVALUATIONS, [row[name] for name in EVALUATIONS]][not new :]:
                    table.write(",".join(map(str, line)) + "\n")
        except OSError as error:
            raise RunDirectoryError(f"cannot write to {self.evaluations_file}: {error}") from None


def find_runs(paths: list[Path]) -> list[RunDirectory]:
    """Run directories among these paths and anywhere below them."""
    if not paths:
        raise RunDirectoryError("name a run directory, or a directory with runs below it")
    found: dict[Path, RunDirectory] = {}  # a run that is named twice is one run
    for path in paths:
        if not path.is_dir():
            raise RunDirectoryError(f"there is no directory {path}")
        below = sorted({file.parent for file in path.rglob("config.toml") if (file.parent / "episodes.csv").exists()})
        if not below:
            raise RunDirectoryError(f"there is no run in {path}: no config.toml beside an episodes.csv")
        for directory in below:
            found.setdefault(directory.resolve(), RunDirectory(directory))
    return list(found.values())


def _read_table(file: Path) -> dict[str, list[float]]:
    try:
        with file.open(newline="") as stream:
            rows = list(csv.reader(stream))
        header, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
        return {name: [float(row[i] or "nan") for row in body] for i, name in enumerate(header)}
    except (OSError, IndexError, ValueError) as error:
        raise RunDirectoryError(f"{file} cannot be read: {error}") from None


def _read_lines(file: Path) -> list[str]:
    _read_table(file)  # an error that names the file, where it is no table
    return file.read_text().splitlines()


def _write_lines(file: Path, lines: list[str]) -> None:
    write_whole(file, "".join(line + "\n" for line in lines), durable=True)


def _settings(config: RunConfig) -> dict[str, Any]:
    """All settings that matter to the run, as TOML has them."""
    settings = asdict(config)
    if not config.evaluation.evaluate_every:
        del settings["evaluation"]
    return settings
