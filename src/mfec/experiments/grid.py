"""The papers' experiments as grids of runs: environments x algorithms x embeddings x neighbours x seeds."""

from __future__ import annotations

import contextlib
import difflib
import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from mfec import __version__
from mfec.algorithms import RunConfig
from mfec.algorithms import algorithm as algorithm_named
from mfec.algorithms import names as algorithm_names
from mfec.algorithms.registry import OWN
from mfec.canonical_names import canonical_name
from mfec.config import DeviceName, EvaluationConfig, folder_of
from mfec.recipes import RecipeName
from mfec.toml import to_toml

ExperimentName = Literal["figure1", "figure2", "match_rates", "nec"]

FRAMES_A_STEP = 4  # in the games and in the levels
GRID = "grid.toml"  # in the folder of a grid: what was asked for
ALL = "all"  # stands for every game or every level


@dataclass(frozen=True)
class Part:
    """The games, or the levels, of an experiment, and what learns in them."""

    names: tuple[str, ...]
    total_frames: int
    algorithms: tuple[str, ...]
    embeddings: tuple[str, ...]
    """Of MFEC."""
    k: tuple[int, ...] = ()
    """Numbers of neighbours of MFEC; without any, the paper's for each environment."""


@dataclass(frozen=True)
class Experiment:
    """An experiment as a preset has it: one of the paper's, or of its successor's."""

    name: str
    title: str
    seeds: int
    games: Part
    levels: Part


@dataclass(frozen=True)
class Choices:
    """What of an experiment is asked for; what is left empty is as in the paper."""

    games: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    embeddings: tuple[str, ...] = ()
    k: tuple[int, ...] = ()
    seeds: int | None = None
    total_frames: int | None = None
    scale: float = 1.0
    n_envs: int | None = None
    recipe: RecipeName = "paper"
    device: DeviceName = "cpu"
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        for name in ("games", "levels"):
            object.__setattr__(self, name, tuple(map(canonical_name, getattr(self, name))))
        if not 0.0 < self.scale <= 1.0:
            raise ValueError(f"scale must lie above 0 and not above 1, not {self.scale}")
        if self.scale != 1.0 and self.total_frames is not None:
            raise ValueError("--scale shrinks the paper's frames and --total-frames replaces them: give one of the two")
        if self.total_frames is not None and self.total_frames < 1:
            raise ValueError(f"total_frames must be at least 1, not {self.total_frames}")
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"seeds says how many there are, at least 1, not {self.seeds}")
        if len(set(self.k)) < len(self.k):
            raise ValueError(f"k names a number twice: {', '.join(map(str, self.k))}")


@dataclass(frozen=True)
class GridRun:
    """One run of a grid, and its place below the grid's folder."""

    config: RunConfig
    place: Path

    @property
    def name(self) -> str:
        """For people."""
        env, algorithm, *below = self.place.parts
        return " ".join([env, algorithm, *(part.replace("-", " ") for part in below)])

    @property
    def cell(self) -> Path:
        """The place of all seeds of these settings."""
        return self.place.parent


def read_experiment(name: str) -> Experiment:
    """The experiment of that preset.

    >>> read_experiment("figure2").games.k
    (1, 3, 11, 25, 50)
    """
    if name not in get_args(ExperimentName):
        raise ValueError(f"unknown experiment {name!r}; there are {', '.join(get_args(ExperimentName))}")
    text = (resources.files("mfec.experiments") / "presets" / f"{name}.toml").read_text()
    values = tomllib.loads(text)
    games, levels = (_part(values.pop(part)) for part in ("games", "levels"))
    return Experiment(name=name, **values, games=games, levels=levels)


def expand(experiment: Experiment, choices: Choices) -> list[GridRun]:
    """All runs that are asked for, in the order in which they are to begin; what is not there is refused."""
    runs: dict[Path, GridRun] = {}
    seeds = choices.seeds or max(1, math.ceil(experiment.seeds * choices.scale))
    # Seed by seed: a grid that is stopped half way has all of its curves, each from fewer seeds.
    for seed in range(seeds):
        for part in _parts(experiment, choices):
            for env in part.names:
                for run in _runs(experiment, part, choices, env, seed):
                    runs[run.place] = run
    if not runs:
        raise ValueError(f"nothing of {experiment.name} is left to run: it has {_algorithms_of(experiment)}")
    return list(runs.values())


def asked(experiment: Experiment, choices: Choices, runs: Sequence[GridRun]) -> str:
    """What a grid's folder keeps of what was asked, in TOML."""
    values = {name: value for name, value in asdict(choices).items() if value not in (None, ())}
    if not choices.evaluation.evaluate_every:
        del values["evaluation"]
    return to_toml({"mfec": __version__, "experiment": experiment.name, "runs": len(runs), **values})


@contextlib.contextmanager
def grid_folder(out: Path, asked: str) -> Iterator[None]:
    """The folder of a grid, in which no other grid is trained meanwhile; `grid.toml` keeps what was asked for."""
    from mfec.experiments.lock import locked  # heavy, and not needed by `mfec --help`
    from mfec.files import write_whole

    with locked(out, "begin a grid"):
        write_whole(out / GRID, asked)
        yield


# -- What is asked for ------------------------------------------------------------------------------------------------


def _parts(experiment: Experiment, choices: Choices) -> Iterator[Part]:
    """The games and the levels, each with what was chosen of it."""
    either = bool(choices.games or choices.levels)
    _choose("algorithm", choices.algorithms, tuple(algorithm_names()), "mfec")
    _choose("embedding", choices.embeddings, ("random_projection", "vae"), experiment.name)
    if choices.k and not experiment.games.k:
        raise ValueError(f"--k is for figure2, which varies it; {experiment.name} has the paper's k")
    for what, part, given in (("game", experiment.games, choices.games), ("level", experiment.levels, choices.levels)):
        if given and not part.names:
            raise ValueError(f"{experiment.name} has no {what}s")
        names = _choose(what, given, part.names, experiment.name) if either else part.names
        algorithms = tuple(name for name in part.algorithms if name in (choices.algorithms or part.algorithms))
        algorithms += tuple(name for name in choices.algorithms if name not in OWN)  # another package's, in addition
        embeddings = tuple(name for name in part.embeddings if name in (choices.embeddings or part.embeddings))
        if given and not algorithms:
            had = " and ".join(part.algorithms)
            raise ValueError(f"{experiment.name} runs {had} on the {what}s, not {', '.join(choices.algorithms)}")
        if given and all(map(_is_varied, algorithms)) and not embeddings:
            had = " and ".join(part.embeddings)
            raise ValueError(f"{experiment.name} has the embedding {had}, not {', '.join(choices.embeddings)}")
        yield replace(part, names=names, algorithms=algorithms, embeddings=embeddings, k=choices.k or part.k)


def _choose(what: str, given: Sequence[str], there: tuple[str, ...], whose: str) -> tuple[str, ...]:
    if ALL in given and what in ("game", "level"):
        return there
    for name in given:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
            hint = f" did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown {what} {name!r};{hint} {whose} has {', '.join(there)}")
    return tuple(dict.fromkeys(given))


def _algorithms_of(experiment: Experiment) -> str:
    there = [part for part in _both(experiment) if part.names]
    ways = [f"{', '.join(part.algorithms)} ({', '.join(part.embeddings)})" for part in there]
    return " and ".join(dict.fromkeys(ways))


def _both(experiment: Experiment) -> tuple[Part, Part]:
    return experiment.games, experiment.levels


def _part(values: dict[str, Any]) -> Part:
    settings: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
    return Part(**settings)


# -- Runs -------------------------------------------------------------------------------------------------------------


def _runs(experiment: Experiment, part: Part, choices: Choices, env: str, seed: int) -> Iterator[GridRun]:
    frames = choices.total_frames or scaled_frames(part.total_frames, choices.scale)
    for algorithm in part.algorithms:
        kind = algorithm_named(algorithm)
        environment = kind.environment
        if choices.n_envs is not None:
            environment = replace(environment, n_envs=choices.n_envs)
        # A recipe is for those that have it; the others play as published beside them.
        recipe = choices.recipe if _is_varied(algorithm) else "paper"
        settings: Any = replace(kind.defaults(env, recipe), device=choices.device)
        config = RunConfig(env, frames, seed, settings, environment, algorithm, choices.evaluation)
        if not _is_varied(algorithm):
            yield GridRun(config, Path(folder_of(env), algorithm, f"seed-{seed}"))
            continue
        for embedding in part.embeddings:
            for k in part.k or (settings.k,):
                own = replace(settings, embedding=embedding, vae=env if embedding == "vae" else "", k=k)
                below = [f"k-{k}"] if part.k else []
                place = Path(folder_of(env), f"{algorithm}_{embedding}", *below, f"seed-{seed}")
                yield GridRun(replace(config, agent=own), place)


def _is_varied(algorithm: str) -> bool:
    """Whether an experiment's embeddings and numbers of neighbours are settings of that algorithm."""
    return {"embedding", "k"} <= algorithm_named(algorithm).settings.__dataclass_fields__.keys()


def scaled_frames(frames: int, scale: float) -> int:
    """That share of the frames, in whole agent steps, at least one.

    >>> scaled_frames(10_000_000, 0.01), scaled_frames(10_000_000, 0.3333333)
    (100000, 3333332)
    """
    return max(FRAMES_A_STEP, int(frames * scale) // FRAMES_A_STEP * FRAMES_A_STEP)
