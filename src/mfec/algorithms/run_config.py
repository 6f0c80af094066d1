"""Everything that makes a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mfec.algorithms.registry import Algorithm, algorithm
from mfec.canonical_names import canonical_name
from mfec.config import EnvConfig, EvaluationConfig, VAEConfig, check_types


@dataclass(frozen=True)
class RunConfig:
    """Everything that makes a run; the run directory keeps it in `config.toml`.

    `agent` holds the settings of its algorithm; None stands for their defaults. `env` is kept under its canonical name.

    >>> RunConfig("QbertNoFrameskip-v4", total_frames=1000, algorithm="dqn").agent.batch_size
    32
    """

    env: str
    total_frames: int
    seed: int = 0
    agent: Any = None  # of the class `kind.settings`
    environment: EnvConfig = field(default_factory=EnvConfig)
    algorithm: str = "mfec"
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        check_types(self)
        object.__setattr__(self, "env", canonical_name(self.env))
        own = self.kind.settings
        object.__setattr__(self, "agent", own() if self.agent is None else self.agent)
        if type(self.agent) is not own:
            raise ValueError(
                f"the settings of {self.algorithm} are a {own.__name__}, not a {type(self.agent).__name__}"
            )
        if self.total_frames < 1:
            raise ValueError(f"total_frames must be at least 1, not {self.total_frames}")
        if self.seed < 0:
            raise ValueError(f"a seed must not be negative, and {self.seed} is")
        object.__setattr__(self, "agent", self.kind.adapt(self.agent, self.env))
        self.kind.check(self)

    @property
    def kind(self) -> Algorithm:
        """The algorithm itself."""
        return algorithm(self.algorithm)

    @property
    def own_vae(self) -> VAEConfig | None:
        """How the VAE is trained that the run begins with; None where it begins with none."""
        return self.kind.own_vae(self)

    @property
    def first_frame(self) -> int:
        """Frames of the run before the agent's first: those that its own VAE is trained on."""
        return self.own_vae.frames if self.own_vae else 0
