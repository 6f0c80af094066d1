"""The embedding of a run: what its settings name, or what its checkpoint holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnasium import spaces

from mfec.checkpoint import CheckpointError, read_checkpoint
from mfec.config import AgentConfig, EmbeddingName
from mfec.embeddings import resolve_embedding
from mfec.run_directory import RunDirectory


def embedding_of_run(
    agent: AgentConfig, space: spaces.Box | spaces.Discrete[Any], out: Path | None
) -> tuple[EmbeddingName, int]:
    """The embedding that `auto` stands for in the run in `out`, and the numbers in its states.

    A checkpoint holds its encoder, so a run goes on though the directory that it came from is gone.
    """
    if agent.vae and agent.embedding in ("auto", "vae") and out is not None:
        dim = encoder_of_checkpoint(out)
        if dim is not None:
            return "vae", dim
    return resolve_embedding(agent.embedding, space, agent.dim, agent.vae)


def encoder_of_checkpoint(out: Path) -> int | None:
    """The numbers in a state of the encoder in a run's checkpoint; None where there is none that can be read."""
    try:
        state, _ = read_checkpoint(RunDirectory(out).checkpoint, kind="agent", only=())
        return int(state["memory"]["dim"]) if state["embedding"] == "vae" else None
    except (CheckpointError, KeyError, TypeError, ValueError):
        return None  # what is wrong with it is said when it is loaded
