"""What `--algorithm` can name: the algorithms of this package, and those that other packages bring.

Another package brings one through the entry-point group `mfec.algorithms`; `docs/extending.md` shows a whole one.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfec.config import EnvConfig, Settings, VAEConfig
from mfec.errors import MfecError

if TYPE_CHECKING:
    from mfec.algorithms.run_config import RunConfig
    from mfec.interface import Agent

GROUP = "mfec.algorithms"
OWN = {
    "mfec": "mfec.algorithms.mfec:MFEC_ALGORITHM",
    "nec": "mfec.algorithms.nec:NEURAL_EPISODIC_CONTROL",
    "dqn": "mfec.algorithms.baselines:DQN",
    "prioritised_dqn": "mfec.algorithms.baselines:PRIORITISED_DQN",
    "a2c": "mfec.algorithms.baselines:A2C",
}
"""Those of this package, in the order of figures and tables."""


class UnknownAlgorithm(MfecError, ValueError):
    """A name that no algorithm has, or one whose package does not load."""


@dataclass(frozen=True)
class Footprint:
    """What a run keeps of its experience, in bytes."""

    what: str  # "memory", "replay"
    rows: str  # "6 x 1,000,000 entries"
    full: int
    in_this_run: int  # at its last frame, at most
    option: str  # that makes it smaller
    on_device: int = 0  # beside them, of a GPU
    for_checkpoint: int = 0  # beside them, while a checkpoint is written or read


class Algorithm:
    """One algorithm: its name, label, settings and extra, and how to make and load its agent.

    A subclass must have `make` and `load`; the rest has defaults that fit a plain agent.
    """

    name: str
    """What `--algorithm` calls it."""
    label: str
    """What figures and tables call it."""
    settings: type[Settings] = Settings
    """Its settings, which `mfec train` shows as options."""
    extra: str = ""
    """The extra of this package that it needs, if any."""
    environment: EnvConfig = EnvConfig()
    """How it plays as published: number of environments, stacked frames."""
    stacks_frames: bool = False
    """Whether the agent stacks frames itself: its environments then show single ones."""
    looks_up: bool = False
    """Whether its agent has an episodic memory: `explain`, the inspector, and a history of episodes are for those."""
    matches: bool = False
    """Whether a state that this memory has is valued by what it keeps of that state alone, an exact match."""

    def defaults(self, env: str, recipe: str = "paper") -> Settings:
        """Its settings in that environment where none are given; an error for a recipe that it does not have."""
        if recipe != "paper":
            raise ValueError(f"{self.name} has no recipe {recipe!r}: --recipe is an option of mfec")
        return self.settings()

    def make(self, env: Any, config: RunConfig, *, out: Path | None = None, device: Any = None) -> Agent:
        """A new agent for a run with these settings, as `resolve` gives them.

        out: the run directory. device: the way to a GPU that runs share, where `looks_up` is true.
        """
        raise NotImplementedError

    def load(self, path: Path, env: Any, config: RunConfig, *, device: Any = None, playing: bool = False) -> Agent:
        """The agent of a run that `save` wrote to `path`. playing: it will only play, and need not be able to learn."""
        raise NotImplementedError

    def resolve(
        self, config: RunConfig, env: Any, *, out: Path | None = None, begun: RunConfig | None = None
    ) -> RunConfig:
        """The settings with what `auto` and the like stand for in this environment.

        begun: the settings of the run that this one goes on with.
        """
        return config

    def adapt(self, settings: Settings, env: str) -> Settings:
        """The settings as they are in that environment, known from its name alone."""
        return settings

    def check(self, config: RunConfig) -> None:
        """Refuse settings that make no run."""

    def remarks(self, given: RunConfig, used: RunConfig, frame_skip: int, *, begun: bool = False) -> list[str]:
        """Sentences for whoever starts the run; used: `given` with everything resolved."""
        return []

    def footprint(self, config: RunConfig, env: Any, *, out: Path | None = None) -> Footprint | None:
        """What the run keeps; None where that is next to nothing."""
        return None

    def shares_device(self, config: RunConfig) -> bool:
        """Whether the run searches on a device, which it can share with others of its kind."""
        return False

    def owns_context(self, config: RunConfig) -> bool:
        """Whether the run's own process computes on a GPU, beside those of other runs."""
        return config.agent.device == "cuda" and not self.shares_device(config)

    def own_vae(self, config: RunConfig) -> VAEConfig | None:
        """How the VAE is trained that the run begins with, on its first frames; None where it needs none."""
        return None

    def frames_before(self, config: RunConfig) -> int:
        """Frames that were seen for the agent before the run, and that the run does not count."""
        return 0

    def variant(self, config: RunConfig) -> str:
        """What tells its lines in a figure apart, beside its name; empty where nothing does."""
        return ""

    def may_differ(self, before: RunConfig, after: RunConfig) -> set[str]:
        """Settings that may change where a run goes on, since it stays the same run, beside `device`."""
        return set()

    def environment_of_agent(self, config: RunConfig, **changes: Any) -> EnvConfig:
        """The environment that its agent is given."""
        changes = {**changes, **({"frame_stack": 1} if self.stacks_frames else {})}
        return replace(config.environment, **changes)


def names() -> list[str]:
    """The names of all algorithms, those of this package first."""
    return [*OWN, *(name for name in sorted(_others()) if name not in OWN)]


@cache
def algorithm(name: str) -> Algorithm:
    """The algorithm of that name.

    >>> algorithm("dqn").label
    'DQN'
    """
    point = EntryPoint(name, OWN[name], GROUP) if name in OWN else _others().get(name)
    if point is None:
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.6)
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise UnknownAlgorithm(f"unknown algorithm {name!r};{hint} installed are {', '.join(names())}")
    try:
        found = point.load()
    except Exception as error:  # of another package: whatever it raises, its name must be said
        if name in OWN:
            raise
        raise UnknownAlgorithm(f"algorithm {name!r} ({point.value}) does not load: {error}") from error
    found = found() if isinstance(found, type) else found
    if not isinstance(found, Algorithm) or found.name != name:
        raise UnknownAlgorithm(f"{point.value} is no `mfec.algorithms.Algorithm` with the name {name!r}")
    return found


def _others() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
