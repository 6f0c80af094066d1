"""The settings of Neural Episodic Control, each with its default in this one place."""

from __future__ import annotations

from dataclasses import dataclass

from mfec.canonical_names import canonical_name, env_kind
from mfec.config import EnvConfig, EpisodeEnd, FewNeighbours, IndexName, Settings, Ties, Truncated
from mfec.schedule import Linear, chance

STACK = 4  # frames of a game that the network sees, as DQN's does


def stacked(env: str) -> EnvConfig:
    """The environment of that name as the network sees it: stacked frames where there are any, those of Atari games."""
    return EnvConfig(frame_stack=STACK if env_kind(canonical_name(env)) == "atari" else 1)


@dataclass(frozen=True)
class NECConfig(Settings):
    """Settings of Neural Episodic Control (Pritzel et al., 2017). Numbers are that paper's where it has them;
    `docs/nec.md` says which it has not, and how these were chosen."""

    p: int = 50
    """Neighbours in a look-up."""
    delta: float = 0.001
    """Of the kernel: a neighbour at distance d weighs 1 / (d^2 + delta)."""
    gamma: float = 0.99
    """Discount rate."""
    n_step: int = 100
    """Rewards in an N-step return, before the value that the dictionaries give to the state after them."""
    epsilon: float | str = 0.005
    """Chance of a random action: a number, or linear:START:END:FRAMES, which goes from one number to another over the
    run's first so many frames."""
    capacity: int = 500_000
    """Entries in each action's dictionary."""
    dim: int = 64
    """Numbers in a key."""
    alpha: float = 0.5
    """How far a known state's value moves towards a new return when it is written, of the way between them."""
    learning_rate: float = 1e-4
    """Step size of RMSProp, for the network."""
    key_learning_rate: float = 1e-4
    """Step size of RMSProp, for the keys of neighbours."""
    value_learning_rate: float = 0.01
    """Share of a minibatch's error that the values of neighbours take over, each by its weight; below alpha."""
    leave_one_out: bool = False
    """Whether a minibatch looks its steps up without their own entries, so that it learns from what others say. Of use
    where states seldom come twice: with them, a step's own return decides its value, and little is left to learn."""
    batch_size: int = 32
    """Steps in a minibatch."""
    train_frames: int = 16
    """Frames between two minibatches."""
    replay_capacity: int = 100_000
    """Steps that replay keeps."""
    replay_start: int = 1_000
    """Steps in replay before the first minibatch."""
    index: IndexName = "auto"
    """How neighbours are searched: exact, cuda (exact, on --device), cells (approximate), or auto: exact on the CPU,
    cuda on --device cuda."""
    recall: float = 0.9925
    """Share of the true neighbours that an approximate search is set to find."""
    few_neighbours: FewNeighbours = "mean"
    """Value of an action with fewer than p entries: infinity (try it), the weighted mean of what is there, or zero; an
    action without any entry is tried under the first two."""
    ties: Ties = "random"
    """Choice among actions of equal value: at random from the seed, or always the first."""
    episode: EpisodeEnd = "game"
    """What ends an episode: the game, or each lost life (the game goes on either way)."""
    truncated: Truncated = "bootstrap"
    """Steps before a time limit cuts a game off: bootstrap (add the value of the state it was cut off in), write them
    as if it had ended, or skip them. auto is as for mfec."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("p", "n_step", "capacity", "dim", "batch_size", "train_frames", "replay_capacity", "replay_start"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.replay_start > self.replay_capacity:
            raise ValueError(
                f"replay_start must not be above replay_capacity, and {self.replay_start} is above "
                f"{self.replay_capacity}"
            )
        if not 0.0 < self.gamma <= 1.0:
            raise ValueError(f"gamma must lie above 0 and not above 1, not {self.gamma}")
        if not self.delta > 0.0:
            raise ValueError(f"delta must be above 0, not {self.delta}")
        for name in ("alpha", "recall"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie above 0 and not above 1, not {getattr(self, name)}")
        for name in ("learning_rate", "key_learning_rate", "value_learning_rate"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} must lie between 0 and 1, not {getattr(self, name)}")
        if self.capacity < self.p and self.few_neighbours != "mean":
            raise ValueError(
                f"a dictionary of {self.capacity} entries never has {self.p} neighbours, which few_neighbours="
                f"{self.few_neighbours!r} asks for"
            )
        if self.index == "none":
            raise ValueError("a value is made of neighbours here, so the index cannot be 'none'")
        epsilon = chance(self.epsilon, "epsilon")
        object.__setattr__(self, "epsilon", str(epsilon) if isinstance(epsilon, Linear) else epsilon)
        self.resolved_index()

    def resolved_index(self) -> IndexName:
        """The index that `auto` stands for: an exact one, since an approximate one would be made for keys that move."""
        if self.index == "auto":
            return "cuda" if self.device == "cuda" else "exact"
        if self.device == "cuda" and self.index != "cuda":
            raise ValueError(f"index {self.index!r} searches on the CPU; device 'cuda' takes 'cuda' or 'auto'")
        return self.index
