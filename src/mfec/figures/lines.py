"""Runs sorted into the lines of figures and tables: in each environment, one for every algorithm and embedding."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mfec.algorithms import RunConfig
from mfec.algorithms import algorithm as algorithm_named
from mfec.algorithms import names as algorithm_names
from mfec.canonical_names import env_kind
from mfec.errors import MfecError
from mfec.figures import ScoreName
from mfec.figures.scores import SCORES
from mfec.run_directory import RunDirectory
from mfec.toml import flat

TITLES = {
    "ms_pacman": "Ms. Pac-Man",
    "space_invaders": "Space Invaders",
    "qbert": "Q*bert",
    "frostbite": "Frostbite",
    "river_raid": "River Raid",
    "labyrinth_forage": "Forage",
    "labyrinth_forage_and_avoid": "Forage and Avoid",
    "labyrinth_double_t_maze": "Double T-Maze",
}
"""Environments of the paper in the order of its figures; others come after them."""
EMBEDDINGS = {"random_projection": "random projections", "vae": "VAE", "identity": "no embedding", "table": "table"}
OF_A_RUN = {"seed", "total_frames", "index", "device"}  # in what runs of one line may differ


class FigureError(MfecError):
    """Runs that cannot be drawn as asked."""


@dataclass(frozen=True)
class Line:
    """All seeds of one algorithm in one environment."""

    env: str
    algorithm: str
    embedding: str  # where the algorithm has one, else empty
    config: RunConfig  # of the first run
    runs: tuple[RunDirectory, ...]

    @property
    def label(self) -> str:
        """What a legend calls it."""
        return label_of(self.algorithm, self.embedding)

    @property
    def title(self) -> str:
        """The environment, as a person would write it."""
        return title_of(self.env)


def sort_runs(runs: Sequence[RunDirectory], *, apart: Sequence[str] = (), score: ScoreName = "training") -> list[Line]:
    """The lines of these runs, in the order of the paper's environments, then of algorithms.

    Runs of a line differ in their seed, index, device and number of frames alone. What else differs is an error, unless
    it is among the settings that are to be kept apart: then their values make lines, in ascending order. How runs were
    evaluated counts where that is their score.
    """
    groups: dict[tuple[Any, ...], list[tuple[RunDirectory, RunConfig]]] = {}
    for run in runs:
        config = run.read_config()
        own = settings_of(config, score=score)
        key = config.env, config.algorithm, _embedding(config), *(own.get(name) for name in apart)
        groups.setdefault(key, []).append((run, config))
    lines = []
    for key in sorted(groups, key=_place):
        group = groups[key]
        _refuse_mixed(group, score)
        refuse_repeated_seeds([run for run, _ in group])
        env, algorithm, embedding = key[:3]
        lines.append(Line(env, algorithm, embedding, group[0][1], tuple(run for run, _ in group)))
    return lines


def settings_of(config: RunConfig, *, score: ScoreName = "training") -> dict[str, Any]:
    """The settings of a run's algorithm and environment, by name, without tables.

    Those of its evaluation are there, if it has one, as far as the score depends on them: the run itself does not.
    """
    evaluated = SCORES[score].settings if config.evaluation.evaluate_every else ()
    own = flat({name: value for name, value in asdict(config).items() if name != "evaluation"})
    return own | {name: getattr(config.evaluation, name) for name in evaluated}


def curve_settings(config: RunConfig, *, score: ScoreName = "training") -> dict[str, Any]:
    """The settings that make a learning curve: runs that share them differ in their seed alone.

    The device does not, nor does one exact index for another, as they find the same neighbours.
    """
    own = settings_of(config, score=score)
    resolved_index = getattr(config.agent, "resolved_index", None)
    if resolved_index is not None:
        index = resolved_index()
        own["index"] = "exact" if index == "cuda" else index
    return {name: value for name, value in own.items() if name not in ("seed", "total_frames", "device")}


def refuse_repeated_seeds(runs: Sequence[RunDirectory]) -> None:
    """An error where a mean over these runs would count a seed twice: its error would come out too small."""
    seeds: dict[int, RunDirectory] = {}
    for run in runs:
        config = run.read_config()
        first = seeds.setdefault(config.seed, run)
        if first is not run:
            what = f"seed {config.seed} of {label_of(config.algorithm, _embedding(config))} on {config.env}"
            raise FigureError(f"{first.path} and {run.path} are both {what}; name only one of them")


def label_of(algorithm: str, embedding: str) -> str:
    """What figures call an algorithm with its embedding.

    >>> label_of("mfec", "vae"), label_of("mfec", "my.encoders:Resnet"), label_of("dqn", "")
    ('MFEC, VAE', 'MFEC, Resnet', 'DQN')
    """
    name = algorithm_named(algorithm).label
    return f"{name}, {EMBEDDINGS.get(embedding, embedding.rpartition(':')[2])}" if embedding else name


def title_of(env: str) -> str:
    """The name of an environment as a person would write it; a Gymnasium id as it is.

    >>> title_of("qbert"), title_of("video_pinball"), title_of("CartPole-v1")
    ('Q*bert', 'Video Pinball', 'CartPole-v1')
    """
    plain = env.replace("_", " ").title() if env.islower() and env.replace("_", "").isalnum() else env
    return TITLES.get(env, plain)


def place_of(env: str) -> tuple[int, str]:
    """The place of an environment among others: the paper's come first, in the order of its figures."""
    known = list(TITLES)
    return (known.index(env) if env in known else len(known), env)


def kind_of(env: str) -> str:
    """Which of the paper's two kinds of environments it is, or neither, in words."""
    return {"atari": "Atari games", "labyrinth": "Labyrinth levels", "other": "Other environments"}[env_kind(env)]


def count(number: int, thing: str) -> str:
    """A number of things, in words.

    >>> count(1, "seed"), count(5, "seed")
    ('1 seed', '5 seeds')
    """
    return f"{number} {thing}" + ("" if number == 1 else "s")


def seeds_of(numbers: Collection[int]) -> str:
    """How many seeds several lines of one name have.

    >>> seeds_of({5}), seeds_of({2, 4})
    ('5 seeds', '2 to 4 seeds')
    """
    few, many = min(numbers), max(numbers)
    return count(many, "seed") if few == many else f"{few} to {many} seeds"


def _embedding(config: RunConfig) -> str:
    return config.kind.variant(config)


def _place(key: tuple[Any, ...]) -> tuple[Any, ...]:
    env, algorithm, embedding, *rest = key
    embeddings = ["", *EMBEDDINGS]
    return (
        *place_of(env),
        algorithm_names().index(algorithm),
        embeddings.index(embedding) if embedding in embeddings else len(embeddings),
        embedding,
        *rest,
    )


def _refuse_mixed(group: list[tuple[RunDirectory, RunConfig]], score: ScoreName) -> None:
    """An error where the mean over these runs would be one of different things."""
    seen: dict[str, tuple[RunDirectory, Any]] = {}  # of each setting, the first run that has it
    advice = "name the directories to draw, so that they are of one kind"
    for run, config in group:
        for name, value in settings_of(config, score=score).items():
            first, ours = seen.setdefault(name, (run, value))
            if name not in OF_A_RUN and value != ours:
                what = f"{label_of(config.algorithm, _embedding(config))} on {config.env}"
                differ = f"{_said(name, ours)} and {_said(name, value)}"
                raise FigureError(f"{first.path} and {run.path} are both {what}, but differ in {differ}; {advice}")


def _said(name: str, value: object) -> str:
    return f"{name} {value}" if value != "" else f"no {name}"
