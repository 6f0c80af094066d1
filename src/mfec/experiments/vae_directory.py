"""The directory of a VAE: settings, networks, costs, and what its training needs to go on."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mfec import __version__
from mfec.algorithms import RunConfig
from mfec.canonical_names import canonical_name
from mfec.config import UNSAID, EnvConfig, VAEConfig
from mfec.errors import MfecError
from mfec.files import write_whole
from mfec.run_directory import RunDirectory
from mfec.toml import flat, to_toml

LOSS = ("step", "correction", "communication", "seconds")


class VAEDirectoryError(MfecError):
    """A directory that a VAE cannot be trained in."""


@dataclass(frozen=True)
class VAEJob:
    """One VAE that is to be trained."""

    env: str
    out: Path
    config: VAEConfig = field(default_factory=VAEConfig)
    environment: EnvConfig = field(default_factory=EnvConfig)
    seed: int = 0
    data: Path | None = None  # where the frames lie or will lie; None stands for `out`

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", canonical_name(self.env))
        if self.seed < 0:
            raise ValueError(f"a seed must not be negative, and {self.seed} is")

    def settings(self) -> dict[str, Any]:
        """What makes the VAE, as JSON takes it."""
        environment = self.environment.made_with()
        settings = {"env": self.env, "seed": self.seed, "recipe": asdict(self.config), "environment": environment}
        return json.loads(json.dumps(settings))  # type: ignore[no-any-return]


def vae_of_run(config: RunConfig, directory: RunDirectory) -> VAEJob:
    """The VAE that a run trains before it begins."""
    assert config.own_vae is not None
    return VAEJob(config.env, directory.vae, config.own_vae, config.environment, config.seed)


class VAEDirectory:
    """Paths and tables of one VAE."""

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

    def has_made(self, steps: int) -> bool:
        """Whether there is an encoder of at least so many steps."""
        if not self.finished:
            return False
        made = self.costs()["step"]
        return bool(made) and made[-1] >= steps

    def begin(self, job: VAEJob, *, resume: bool) -> None:
        """Write the settings of a job, or see that they are those of the one that goes on. Steps may be added."""
        if not self.config_file.exists():
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._write_config(job)
            except OSError as error:
                raise VAEDirectoryError(f"cannot train a VAE in {self.path}: {error}") from None
            return
        if not resume:
            raise VAEDirectoryError(
                f"{self.path} already holds a VAE: --resume goes on with it, or choose another --out"
            )
        before = UNSAID | flat(self._read_config())
        for name, value in flat(job.settings()).items():
            if name != "steps" and before.get(name) != value:
                raise VAEDirectoryError(
                    f"{self.path} was begun with {name} = {before.get(name)}, it cannot go on with {value}"
                )
        if not self.has_made(job.config.steps):
            self._write_config(job)

    def costs(self) -> dict[str, list[float]]:
        """The table of costs, by column."""
        try:
            with self.loss_file.open(newline="") as stream:
                header, *rows = csv.reader(stream)
            if tuple(header) != LOSS:
                raise ValueError(f"its columns are not {', '.join(LOSS)}")
            return {name: [float(row[i]) for row in rows if len(row) == len(header)] for i, name in enumerate(header)}
        except (OSError, ValueError) as error:
            raise VAEDirectoryError(f"{self.loss_file} cannot be read: {error}") from None

    def write_costs(self, rows: Sequence[tuple[float, ...]]) -> None:
        """Write the table of costs, atomically."""
        lines = [",".join(LOSS), *(",".join(f"{number:.10g}" for number in row) for row in rows)]
        write_whole(self.loss_file, "\n".join(lines) + "\n")

    def _read_config(self) -> dict[str, Any]:
        try:
            settings = tomllib.loads(self.config_file.read_text(encoding="utf-8"))
            vae_config(settings["recipe"])
            return {**settings, "env": canonical_name(settings["env"])}
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise VAEDirectoryError(f"{self.config_file} is not that of a VAE: {error}") from None

    def _write_config(self, job: VAEJob) -> None:
        write_whole(self.config_file, to_toml({"mfec": __version__, **job.settings()}))


def vae_config(values: dict[str, Any]) -> VAEConfig:
    """The recipe of a VAE as TOML has it."""
    recipe: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return VAEConfig(**recipe)
