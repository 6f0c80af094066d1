"""MFEC as an algorithm of the registry: its settings in a run, and how its agent is made and loaded."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from mfec.algorithms.footprints import footprint_of_memory
from mfec.algorithms.registry import Algorithm, Footprint
from mfec.algorithms.run_config import RunConfig
from mfec.canonical_names import env_kind
from mfec.checkpoint import CHECKPOINT, CheckpointError, read_checkpoint
from mfec.config import OWN_VAE, AgentConfig, IndexName, Settings, VAEConfig, folder_of, is_import_name
from mfec.device import refuse_missing
from mfec.recipes import AGENT, RecipeName


@dataclass(frozen=True)
class MFECConfig(AgentConfig):
    """Settings of MFEC in a run: those of the agent, and how the run trains a VAE of its own."""

    vae_frames: int = VAEConfig.frames
    """With --embedding vae and no --vae: frames of a random policy that the run's own VAE is trained on, its first."""
    vae_steps: int = VAEConfig.steps
    """With --embedding vae and no --vae: steps of that training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.own_vae  # noqa: B018  # refuses senseless numbers

    @property
    def own_vae(self) -> VAEConfig:
        """The recipe of the run's own VAE."""
        return VAEConfig(frames=self.vae_frames, steps=self.vae_steps)

    @property
    def of_agent(self) -> AgentConfig:
        """The agent's own settings."""
        return AgentConfig(**{field.name: getattr(self, field.name) for field in fields(AgentConfig)})


def settings_of(config: RunConfig) -> MFECConfig:
    """The settings of a run of MFEC."""
    assert isinstance(config.agent, MFECConfig)
    return config.agent


class EpisodicControl(Algorithm):
    """Model-free episodic control."""

    name = "mfec"
    label = "MFEC"
    settings = MFECConfig
    looks_up = True
    matches = True

    def defaults(self, env: str, recipe: str = "paper") -> MFECConfig:
        """The settings of a recipe."""
        return MFECConfig(**AGENT[cast("RecipeName", recipe)][env_kind(env)])

    def adapt(self, settings: Settings, env: str) -> Settings:
        """Put the environment's name where an encoder's name has a place for it; who names one wants the VAE."""
        assert isinstance(settings, MFECConfig)
        if not settings.vae:
            return settings
        return replace(settings, vae=settings.vae.replace("{env}", folder_of(env)), embedding="vae")

    def check(self, config: RunConfig) -> None:
        """Refuse a run that ends before its VAE is trained."""
        own = self.own_vae(config)
        if own and config.total_frames <= own.frames:
            raise ValueError(
                f"the first {own.frames:,} frames train the VAE, so total_frames must be more than that, not "
                f"{config.total_frames:,}; or name an encoder (--vae)"
            )

    def shares_device(self, config: RunConfig) -> bool:
        """Whether it searches on a device."""
        return settings_of(config).resolved_index() == "cuda"

    def own_vae(self, config: RunConfig) -> VAEConfig | None:
        """The VAE of a run that names no encoder."""
        own = settings_of(config)
        return own.own_vae if own.embedding == "vae" and not own.vae else None

    def resolve(
        self, config: RunConfig, env: Any, *, out: Path | None = None, begun: RunConfig | None = None
    ) -> RunConfig:
        """The settings with the embedding that `auto` stands for, its encoder's one name, and what cuts do."""
        from mfec.embeddings.vae.files import encoder_name
        from mfec.envs.environments import make_environments

        envs = make_environments(env, np.random.SeedSequence(config.seed))
        own = settings_of(config)
        own = replace(own, vae=encoder_name(own.vae))
        name, _ = embedding_of_run(own, envs.observation_space, out)
        truncated = own.resolved_truncated(envs.facts.published)
        return replace(config, agent=replace(own, embedding=name, truncated=truncated))

    def make(self, env: Any, config: RunConfig, *, out: Path | None = None, device: Any = None) -> Any:
        """The agent, with the run's own VAE where it has trained one."""
        from mfec.agent import MFEC
        from mfec.embeddings import VAE

        own = settings_of(config)
        _refuse_missing_torch(own, device)
        settings = {**vars(own.of_agent), "device": device or own.device}
        trained = self.own_vae(config)
        if trained:
            assert out is not None
            settings["embedding"] = VAE.load(out / OWN_VAE)
        agent = MFEC(env, **settings, seed=config.seed)
        agent.frames = config.first_frame  # those that the VAE was trained on count
        return agent

    def load(self, path: Path, env: Any, config: RunConfig, *, device: Any = None, playing: bool = False) -> Any:
        """The agent, if it is that of the run."""
        from mfec.agent import MFEC

        own = settings_of(config)
        _refuse_missing_torch(own, device)
        index: IndexName | None = None if playing else own.index
        embedding = own.embedding if is_import_name(own.embedding) else None
        agent = MFEC.load(path, env=env, embedding=embedding, device=device or own.device, index=index)
        saved = replace(agent.config, device=own.device, index=own.index)
        if (saved, agent.seed) != (own.of_agent, config.seed):
            raise CheckpointError(f"{path} is of another run: its settings are not those of config.toml")
        return agent

    def footprint(self, config: RunConfig, env: Any, *, out: Path | None = None) -> Footprint:
        """Bytes of the memory."""
        from mfec.envs.environments import make_environments

        own, envs = settings_of(config), make_environments(env, np.random.SeedSequence(0))
        _, dim = embedding_of_run(own, envs.observation_space, out)
        steps = config.total_frames // envs.frame_skip
        return footprint_of_memory(own, int(envs.action_space.n), dim, steps)

    def frames_before(self, config: RunConfig) -> int:
        """Frames that a ready encoder was trained on."""
        own = settings_of(config)
        return VAEConfig.frames if own.embedding == "vae" and own.vae else 0

    def variant(self, config: RunConfig) -> str:
        """Its embedding."""
        return settings_of(config).embedding

    def may_differ(self, before: RunConfig, after: RunConfig) -> set[str]:
        """One exact index for the other, which find the same neighbours; and `auto` for what it was resolved to.

        A run with `auto` that comes from a GPU to a CPU may come to search cells there; `exact` keeps it as it was. And
        the states of a VAE differ in their last bits on another device: what matched still does, a neighbour may not.
        """
        old, new = settings_of(before), settings_of(after)
        free = {name for name in ("embedding", "truncated") if getattr(new, name) == "auto"}
        indexes = {old.resolved_index(), new.resolved_index()}
        return free | ({"index"} if indexes <= {"exact", "cuda"} else set())


MFEC_ALGORITHM = EpisodicControl()


def _refuse_missing_torch(own: MFECConfig, device: Any) -> None:
    """An error where a VAE cannot be run, before anything of the run is written; a given device can."""
    if own.embedding == "vae" and device is None:
        refuse_missing(own.device)


def embedding_of_run(agent: AgentConfig, space: Any, out: Path | None) -> tuple[str, int]:
    """The embedding that `auto` stands for in the run in `out`, and the numbers in its states.

    A checkpoint holds its encoder, so a run goes on though the directory that it came from is gone.
    """
    from mfec.embeddings import resolve_embedding

    if agent.vae and agent.embedding in ("auto", "vae") and out is not None:
        dim = encoder_of_checkpoint(out)
        if dim is not None:
            return "vae", dim
    return resolve_embedding(agent.embedding, space, agent.dim, agent.vae)


def encoder_of_checkpoint(out: Path) -> int | None:
    """The numbers in a state of the encoder in a run's checkpoint; None where there is none that can be read."""
    try:
        state, _ = read_checkpoint(out / CHECKPOINT, kind="agent", only=())
        return int(state["memory"]["dim"]) if state["embedding"] == "vae" else None
    except (CheckpointError, KeyError, TypeError, ValueError):
        return None  # what is wrong with it is said when it is loaded
