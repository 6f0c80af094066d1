"""All settings of a run, each with its default in this one place."""

from __future__ import annotations

import difflib
import operator
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from mfec.schedule import Linear, chance, number_at

CHECKPOINT_FRAMES = 250_000  # between two checkpoints of a run
# What `truncated="auto"` is beyond Atari and the Labyrinth. Greedy play after 100,000 steps, mean of three seeds: in
# Taxi -57 with it, -985 with "write", -224 with "skip"; in Acrobot -214, -358, -404; in CartPole no clear difference.
TRUNCATED_ELSEWHERE: Literal["write", "bootstrap", "skip"] = "bootstrap"
OWN_VAE = "vae"  # in a run directory: the VAE that the run has trained
UNSAID: dict[str, Any] = {"env_kwargs": [], "wrappers": []}  # in files from before there were such settings
FRAMES_LIMIT_GB = 1.0  # of frames that a run keeps, if it keeps any

EMBEDDINGS = {
    "random_projection": "mfec.embeddings.random_projection:RandomProjection",
    "vae": "mfec.embeddings.vae:VAE",
    "identity": "mfec.embeddings.identity:Identity",
    "table": "mfec.embeddings.identity:Table",
}
"""What `embedding` can name beside `auto` and `package.module:object`, and where it is. A line here adds one."""
INDEXES = {
    "exact": "mfec.memory.neighbours.exact:ExactIndex",
    "cells": "mfec.memory.neighbours.cells:CellIndex",
    "cuda": "mfec.memory.neighbours.cuda:CudaIndex",
    "none": "mfec.memory.neighbours.none:NoIndex",
    "auto": "mfec.memory.neighbours.auto:AutoIndex",
}
"""What `index` can name, and where it is. A line here adds one."""

if TYPE_CHECKING:
    IndexName = str
else:
    IndexName = Literal[tuple(INDEXES)]
DeviceName = Literal["cpu", "cuda"]
Kernel = Literal["mean", "inverse"]
Eviction = Literal["updated", "used"]
Update = Literal["max", "replace"]
FewNeighbours = Literal["infinity", "mean", "zero"]
Ties = Literal["random", "first"]
EpisodeEnd = Literal["game", "life"]
Truncated = Literal["auto", "write", "bootstrap", "skip"]
Starts = Literal["sampled", "all", "unseen"]


@dataclass(frozen=True)
class Settings:
    """What every algorithm can be told. Its own settings are a subclass: frozen, typed, each with a default and, below
    it, a sentence that `mfec train --help` shows. Numbers and words of another kind than their type are refused."""

    device: DeviceName = "cpu"
    """Where the agent computes: cpu, or cuda for an NVIDIA GPU (needs the extra torch)."""

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True)
class AgentConfig(Settings):
    """Settings of the episodic controller. Numbers are the paper's for Atari (section 4.1).

    `mfec.recipes` has those for the Labyrinth, and tuned ones. Where the paper is silent or says two things,
    `docs/differences-from-the-paper.md` explains the default.
    """

    k: int = 11
    """Neighbours in an estimate."""
    kernel: Kernel = "mean"
    """What neighbours count in an estimate: mean (all the same, Eq. 2), or inverse (each 1 / (d^2 + 0.001), d its
    distance, as in Neural Episodic Control by Pritzel et al., 2017)."""
    gamma: float = 1.0
    """Discount rate of returns."""
    epsilon: float | str = 0.005
    """Chance of a random action: a number, or linear:START:END:FRAMES (linear:1:0.005:100000), which goes from one
    number to another over the run's first so many frames."""
    capacity: int = 1_000_000
    """Entries in each action's buffer."""
    embedding: str = "auto"
    """From observation to state: random_projection, vae, identity (the numbers as they are), table (Discrete
    observations without neighbours), or one of your own, package.module:object. auto is vae where --vae names an
    encoder, table where observations are Discrete; else it projects observations of more than --dim numbers and takes
    others as they are."""
    vae: str = ""
    """Encoder of --embedding vae: a directory that `mfec vae train` wrote, or the name of one that ships (qbert, ...);
    {env} stands for the environment. Without one, a run first plays at random and trains its own (--vae-frames,
    --vae-steps)."""
    dim: int = 64
    """Numbers in a projected state."""
    index: IndexName = "auto"
    """How neighbours are searched: exact, cells (approximate, for large memories), cuda
    (exact, with torch, on --device), none (exact matches alone), or auto: cuda on --device cuda; else exact while that
    is the faster one on this machine, then cells."""
    recall: float = 0.9925
    """Share of the true neighbours that an approximate search is set to find. With 0.985, one action in 30 was not the
    one that exact search takes on Ms. Pac-Man; with this, one in 100."""
    eviction: Eviction = "updated"
    """Entry that a full buffer gives up: least recently updated, or least recently used."""
    update: Update = "max"
    """Value of a known state and action: highest return (Eq. 1), or the latest one."""
    few_neighbours: FewNeighbours = "mean"
    """Estimate from a buffer of fewer than k entries: infinity (try the action), mean (as --kernel
    takes it) of what is there, or zero; an action without any entry is tried under the first two."""
    ties: Ties = "random"
    """Choice among actions of equal value: at random from the seed, or always the first."""
    episode: EpisodeEnd = "life"
    """What ends an episode for the memory: the game, or each lost life (the game goes on either way)."""
    truncated: Truncated = "auto"
    """An episode that a time limit cuts off: write it as if it had ended (the paper's way), bootstrap (add the value of
    the state it was cut off in; skip it where nothing is known of that), or skip it. auto is write on Atari and in the
    Labyrinth, and bootstrap elsewhere."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1 or self.capacity < 1 or self.dim < 1:
            raise ValueError("k, capacity and dim must be at least 1")
        if self.embedding not in ("auto", *EMBEDDINGS) and not is_import_name(self.embedding):
            raise unknown_embedding(self.embedding)
        if self.vae and self.embedding not in ("auto", "vae"):
            raise ValueError(f"an encoder ({self.vae!r}) is for the embedding vae, not for {self.embedding}")
        if not 0.0 < self.gamma <= 1.0:
            raise ValueError(f"gamma must lie above 0 and not above 1, not {self.gamma}")
        if not 0.0 < self.recall <= 1.0:
            raise ValueError(f"recall must lie above 0 and not above 1, not {self.recall}")
        epsilon = chance(self.epsilon, "epsilon")
        object.__setattr__(self, "epsilon", str(epsilon) if isinstance(epsilon, Linear) else epsilon)
        self.resolved_index()

    def epsilon_at(self, frames: int) -> float:
        """The chance of a random action after so many frames."""
        return number_at(self.epsilon, frames)

    def resolved_index(self) -> IndexName:
        """The index that `auto` stands for: that of the device, where it has one."""
        if self.device == "cpu" or self.index in ("cuda", "none"):
            return self.index
        if self.index != "auto":
            raise ValueError(f"index {self.index!r} searches on the CPU; device {self.device!r} takes 'cuda' or 'auto'")
        return "cuda"

    def resolved_truncated(self, published: bool) -> Literal["write", "bootstrap", "skip"]:
        """What `auto` stands for: the paper's way in an environment of the paper's kinds."""
        return resolved_truncated(self.truncated, published)


@dataclass(frozen=True)
class EnvConfig:
    """Settings of the environments."""

    n_envs: int = 1
    """Environments that step together and share one memory; 1 is the paper's algorithm."""
    frame_stack: int = 1
    """Frames in an observation: of Atari games, and of all pictures where a network learns."""
    sticky_actions: float = 0.0
    """Atari: chance, in each frame, that the last action is repeated."""
    max_frames: int = 108_000
    """Atari: frames after which a game is cut off (half an hour of play)."""
    env_kwargs: tuple[str, ...] = ()
    """Keywords for the environment: is_slippery=false size=8. Values are read as TOML where they are; others are
    words."""
    wrappers: tuple[str, ...] = ()
    """Wrappers around each environment, from the inside out: package.module:Wrapper, or a function that takes an
    environment and returns one."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("env_kwargs", "wrappers"):
            object.__setattr__(self, name, _words(name, getattr(self, name)))
        for wrapper in self.wrappers:
            if not all(wrapper.partition(":")):
                raise ValueError(f"a wrapper is named package.module:Wrapper, not {wrapper!r}")
        self.keywords()
        if self.n_envs < 1:
            raise ValueError(f"n_envs must be at least 1, not {self.n_envs}")
        if self.frame_stack < 1:
            raise ValueError(f"frame_stack must be at least 1, not {self.frame_stack}")
        if not 0.0 <= self.sticky_actions < 1.0:
            raise ValueError(f"sticky_actions must be a probability below 1, not {self.sticky_actions}")
        if self.max_frames < 4:
            raise ValueError(f"max_frames must be at least 4, not {self.max_frames}")

    def keywords(self) -> dict[str, Any]:
        """`env_kwargs` as Python has them.

        >>> EnvConfig(env_kwargs=("is_slippery=false", "map_name=8x8", "success_rate=0.9")).keywords()
        {'is_slippery': False, 'map_name': '8x8', 'success_rate': 0.9}
        """
        keywords: dict[str, Any] = {}
        for given in self.env_kwargs:
            name, equals, value = given.partition("=")
            name = name.strip()
            if not equals or not name.isidentifier():
                raise ValueError(f"a keyword of env_kwargs is name=value, for example size=8, not {given!r}")
            if name in keywords:
                raise ValueError(f"env_kwargs has {name} twice")
            keywords[name] = _value(value.strip())
        return keywords

    def of_atari(self) -> dict[str, Any]:
        """The settings that Atari games alone have."""
        return {name: getattr(self, name) for name in ("frame_stack", "sticky_actions", "max_frames")}

    def made_with(self) -> dict[str, Any]:
        """What makes each of the environments, as JSON takes it."""
        settings = {name: list(own) if isinstance(own, tuple) else own for name, own in vars(self).items()}
        return {name: own for name, own in settings.items() if name != "n_envs"}


@dataclass(frozen=True)
class EvaluationConfig:
    """How often a run is evaluated while it trains, and how. It leaves no trace on the run."""

    evaluate_every: int = 0
    """Frames between two evaluations, whose scores go into evaluations.csv; 0 stands for none."""
    evaluate_games: int = 30
    """Whole games in an evaluation. On Atari without sticky actions, with --evaluate-epsilon 0, all thirty starts are
    played once each, whatever is said here: that is the policy's exact score."""
    evaluate_epsilon: float = 0.0
    """Chance of a random action in an evaluation; with 0, equal values go to the first action."""

    def __post_init__(self) -> None:
        check_types(self)
        if self.evaluate_every < 0:
            raise ValueError(f"evaluate_every must not be negative, and {self.evaluate_every} is")
        if self.evaluate_games < 1:
            raise ValueError(f"evaluate_games must be at least 1, not {self.evaluate_games}")
        if not 0.0 <= self.evaluate_epsilon <= 1.0:
            raise ValueError(f"evaluate_epsilon must lie between 0 and 1, not {self.evaluate_epsilon}")


@dataclass(frozen=True)
class VAEConfig:
    """How a VAE is trained. The defaults are the recipe in the paper's appendix."""

    frames: int = 1_000_000
    """Frames of a random policy to train on."""
    steps: int = 400_000
    """Steps of stochastic gradient descent."""
    minibatch: int = 100
    """Frames in a step."""
    step_size: float = 1e-5
    """Step size of RMSProp."""
    latents: int = 32
    """Numbers in a message z; a state has a mean and a log-standard-deviation for each."""
    channels: tuple[int, ...] = (32, 32, 64, 64)
    """Maps of the encoder's four convolutions; the decoder's are mirrored."""
    hidden: int = 512
    """Units of the fully connected layers."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("frames", "steps", "minibatch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0.0 < self.step_size < 1.0:
            raise ValueError(f"step_size must lie between 0 and 1, not {self.step_size}")


def check_types(config: Any) -> None:
    """Refuse words that a setting does not have, and numbers of another kind; numpy's become Python's, as JSON takes.

    A wrong word would else mean something: `episode="lives"` would be taken for the game.
    """
    for name, hint in _hints(config.__class__).items():
        value = getattr(config, name)
        if get_origin(hint) is Literal:
            if value not in get_args(hint):
                raise ValueError(f"{name} must be one of {', '.join(get_args(hint))}, not {value!r}")
        elif hint in (int, float):
            try:
                number = operator.index(value) if hint is int else float(value)
            except (TypeError, ValueError):
                kind = "whole number" if hint is int else "number"
                raise ValueError(f"{name} must be a {kind}, not {value!r}") from None
            object.__setattr__(config, name, number)


def _words(name: str, given: Any) -> tuple[str, ...]:
    """Several words, of which TOML makes a list."""
    if isinstance(given, str) or not all(isinstance(word, str) for word in given):
        raise ValueError(f"{name} must be a list of words, not {given!r}")
    return tuple(given)


# TOML has no None, and Python's other two would be words, which are true.
PYTHONS = {"True": True, "False": False, "None": None}


def _value(text: str) -> Any:
    """A value as TOML reads it, or Python's words for true, false and none; any other text is itself."""
    if text in PYTHONS:
        return PYTHONS[text]
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return read["value"] if len(read) == 1 else text


@cache
def _hints(config: type[object]) -> dict[str, Any]:
    return get_type_hints(config)


def resolved_truncated(truncated: Truncated, published: bool) -> Literal["write", "bootstrap", "skip"]:
    """What `auto` stands for: the paper's way in an environment of the paper's kinds."""
    if truncated != "auto":
        return truncated
    return "write" if published else TRUNCATED_ELSEWHERE


def is_import_name(name: object) -> bool:
    """Whether a name says where an object of the user's is: `package.module:object`.

    >>> is_import_name("encoders:Resnet"), is_import_name("vae")
    (True, False)
    """
    return isinstance(name, str) and bool(re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", name))


def unknown_embedding(name: object) -> ValueError:
    """The error for a name that is none of an embedding's."""
    near = difflib.get_close_matches(str(name), ["auto", *EMBEDDINGS], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    there = ", ".join(["auto", *EMBEDDINGS])
    return ValueError(f"unknown embedding {name!r}{hint} there are {there}, and your own: package.module:object")


def check_frames_limit(gigabytes: float) -> None:
    """Refuse a limit of kept frames that is none."""
    if not gigabytes > 0.0:
        raise ValueError(f"the limit of kept frames must be above 0 gigabytes, not {gigabytes}")


def folder_of(env: str) -> str:
    """The name of an environment as that of a folder."""
    return env.replace("/", "-").replace(":", "-")
