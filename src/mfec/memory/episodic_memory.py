"""The episodic memory Q_EC: one buffer of (state, value) pairs for each action (Blundell et al., 2016, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfec.checkpoint import CheckpointError, Files, read_checkpoint, write_checkpoint
from mfec.compiling import announce_compiling
from mfec.config import AgentConfig, DeviceName, Eviction, FewNeighbours, IndexName, Kernel, Update
from mfec.device import Channel, device_name
from mfec.html_table import html_table
from mfec.memory.buffers import SUMMARY, Buffers
from mfec.memory.checking import check_numbers, checked_actions, checked_places, checked_states, checked_values
from mfec.memory.compiled import Experience, Rule, average, count_matches, has_mean, normalised_weights
from mfec.memory.entries import Entries, Entry, which_to_keep
from mfec.memory.estimates import Estimates, Evidence, Neighbours, Source
from mfec.memory.export import to_dataframe, to_parquet
from mfec.memory.identities import Identities, IdentityTable, array_keys, identity_keys
from mfec.memory.merging import refuse_other_memory
from mfec.memory.neighbours import index_bytes_per_entry
from mfec.memory.parts import Parts
from mfec.memory.store import STORED, EntryStore

if TYPE_CHECKING:
    import pandas

AnyUpdate = Literal[Update, "step"]

FEW_NEIGHBOURS, KERNELS, UPDATES = get_args(FewNeighbours), get_args(Kernel), get_args(AnyUpdate)
DELTA, ALPHA = 1e-3, 0.1  # of Neural Episodic Control (Pritzel et al., 2017); it gives no alpha, others have 0.1
SETTINGS = {
    "n_actions", "dim", "capacity", "index", "k", "kernel", "delta", "recall", "eviction", "update", "alpha",
    "few_neighbours", "exact_matches",
}  # fmt: skip


class EpisodicMemory:
    """A growing table of the best return of every state and action, averaged over neighbours where a state is new.

    Args:
        n_actions: number of actions, one buffer each.
        dim: numbers in a state.
        capacity: entries in each buffer; the paper has one million on Atari.
        k: neighbours in an estimate; the paper has 11 on Atari and 50 on Labyrinth.
        kernel: the weights of neighbours in an estimate: all equal, a `mean` (Eq. 2), or the `inverse` of the squared
            distance, 1 / (d^2 + delta), the kernel of Neural Episodic Control (Pritzel et al., 2017).
        delta: of the kernel `inverse`; a neighbour at distance 0 has the weight 1 / delta.
        index: how neighbours are searched: `exact`, `cells` (approximate, for large buffers), `cuda` (exact, on a
            device), `none` (exact matches only), or `auto`: cuda on the device `cuda`; else exact while it is the
            faster one on this machine, then cells.
        device: where states are kept and searched: `cpu`, `cuda`, or a channel to a device that several memories share.
        recall: share of the true neighbours that an approximate index is set to find.
        eviction: which entry a full buffer gives up: the least recently `updated` (section 2 of the paper) or the
            least recently `used` (section 4): written, matched, or a neighbour in an estimate.
        update: what becomes of the value of a known state and action: `max` keeps the highest return (Eq. 1),
            `replace` the latest (the paper's footnote), `step` moves it by `alpha` of the way to the latest, and takes
            over the latest state of that identity.
        alpha: of `update="step"`, above 0 and at most 1.
        few_neighbours: the estimate of a new state from a buffer of fewer than k entries: `infinity` (try the
            action), the `mean` (as `kernel` takes it) of what is there, or `zero`. An action without any entry is
            tried, except under `zero`.
        exact_matches: whether the estimate of a known state is its stored value; if not, that of its neighbours.

    >>> memory = EpisodicMemory(n_actions=2, dim=1, capacity=10, k=1)
    >>> memory.write([[0.0], [1.0]], actions=[0, 1], returns=[3.0, 5.0])
    >>> memory.estimate([[0.0], [0.9]]).values.tolist()
    [[3.0, 5.0], [3.0, 5.0]]
    """

    def __init__(
        self,
        n_actions: int,
        dim: int,
        *,
        capacity: int = AgentConfig.capacity,
        k: int = AgentConfig.k,
        kernel: Kernel = AgentConfig.kernel,
        delta: float = DELTA,
        index: IndexName = AgentConfig.index,
        device: DeviceName | Channel = AgentConfig.device,
        recall: float = AgentConfig.recall,
        eviction: Eviction = AgentConfig.eviction,
        update: AnyUpdate = AgentConfig.update,
        alpha: float = ALPHA,
        few_neighbours: FewNeighbours = AgentConfig.few_neighbours,
        exact_matches: bool = True,
    ) -> None:
        announce_compiling()
        check_numbers(n_actions=n_actions, dim=dim, capacity=capacity, k=k, recall=recall, delta=delta, alpha=alpha)
        for name, given, allowed in (
            ("kernel", kernel, KERNELS),
            ("eviction", eviction, get_args(Eviction)),
            ("update", update, UPDATES),
            ("few_neighbours", few_neighbours, FEW_NEIGHBOURS),
            ("exact_matches", exact_matches, (True, False)),
            ("device", device_name(device), get_args(DeviceName)),
        ):
            if given not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, not {given!r}")
        self.n_actions, self.dim, self.capacity, self.k = int(n_actions), int(dim), int(capacity), int(k)
        self.recall, self.delta, self.alpha = float(recall), float(delta), float(alpha)
        self.exact_matches = bool(exact_matches)
        self.kernel: Kernel = kernel
        self.eviction: Eviction = eviction
        self.update: AnyUpdate = update
        self.few_neighbours: FewNeighbours = few_neighbours

        self.index: IndexName = index  # as it was asked for
        shape = (self.n_actions, self.capacity, self.dim)
        self._store = EntryStore(shape, index, k=self.k, recall=self.recall, device=device)
        self.buffers = self._store.buffers

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SETTINGS and name in vars(self):
            raise AttributeError(
                f"{name} is fixed when a memory is made, EpisodicMemory(..., {name}=...), so that its settings say how "
                "its values came about"
            )
        super().__setattr__(name, value)

    def embed_with(self, embedding: Any) -> bool:
        """Let the index embed observations, if it can; `estimate` then takes these, uint8 (n, size)."""
        return self._store.index.embed_with(embedding)

    @property
    def embeds(self) -> bool:
        """Whether the index embeds observations."""
        return self._store.index.embeds

    # -- Eq. 2: reading -----------------------------------------------------------------------------------------------

    def estimate(self, states: ArrayLike, identities: Identities | None = None, *, mark_used: bool = True) -> Estimates:
        """The value of every action in every state (Eq. 2).

        An exact match has its stored value, unless `exact_matches` is off. Any other state has the mean of its k
        nearest neighbours in the action's buffer, weighted as `kernel` says. `mark_used=False` leaves no trace: it
        changes neither the eviction order, nor the measured recall, nor the index.

        states: float32 (n, dim), or observations after `embed_with`; identities: n bytes or integers, by default the
        states' own bytes.
        """
        batch, keys = self._check(states, identities)
        matches = self._matches(keys)
        exact = matches >= 0
        found = self._store.index.search(batch, ~exact, self.k, learning=mark_used)
        values = np.empty(exact.shape, np.float32)
        average(self.buffers.values, matches, found.slots, found.squared, *self._averaging, values)
        if mark_used:
            count_matches(self.buffers.matched, matches)
            self._mark_used(matches, found.slots)
        return Estimates(found.states, values, exact)

    def nearest(
        self, states: ArrayLike, actions: ArrayLike, *, mark_used: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k nearest entries of each state in the buffer of its own action, nearest first; known states search, too.

        states: float32 (n, dim); actions: int (n,). Returns slots, int64 (n, k), -1 where there are fewer, and squared
        distances, float64 (n, k), infinity there. `mark_used` marks entries as used now, as `estimate` does; without
        it nothing changes.
        """
        batch = self._check_states(states)
        taken = checked_actions(actions, len(batch), self.n_actions)
        rows = np.arange(len(batch))
        wanted = np.zeros((len(batch), self.n_actions), np.bool_)
        wanted[rows, taken] = True
        found = self._store.index.search(batch, wanted, self.k, learning=mark_used)
        if mark_used:
            self._mark_used(np.full(wanted.shape, -1), found.slots)
        return found.slots[rows, taken], found.squared[rows, taken]

    def slots_of(self, identities: Identities, actions: ArrayLike) -> NDArray[np.int64]:
        """The slot of each state in the buffer of its own action, int64 (n,); -1 where it is not known there."""
        keys = identity_keys(identities)
        return self._store.table.find(keys)[np.arange(len(keys)), checked_actions(actions, len(keys), self.n_actions)]

    def at(self, actions: ArrayLike, slots: ArrayLike) -> Entries:
        """A copy of the entries in these places, int (n,) each; slots are those of `nearest`."""
        return self._store.read(*checked_places(actions, slots, self.buffers.sizes))

    def neighbours(self, state: ArrayLike, action: int) -> Neighbours:
        """The nearest entries of one action's buffer, at most k, as they enter the estimate of a new state."""
        self._check_action(action)
        batch, _ = self._check(np.asarray(state)[None], None)
        wanted = np.zeros((1, self.n_actions), np.bool_)
        wanted[0, action] = True
        found = self._store.index.search(batch, wanted, self.k)
        return self._neighbours(action, found.slots[0, action], found.squared[0, action])

    def evidence(self, state: ArrayLike, identity: Identities | None = None) -> list[Evidence]:
        """For each action, the estimate in one state and the entries behind it. It leaves no trace.

        state: float32 (1, dim), or an observation after `embed_with`; identity: one, as in `estimate`.
        """
        batch, keys = self._check(state, identity)
        if len(keys) != 1:
            raise ValueError(f"evidence is about one state, not {len(keys)}")
        matches = self._matches(keys)
        found = self._store.index.search(batch, matches < 0, self.k)
        slots, squared = found.slots, found.squared
        values = np.empty(matches.shape, np.float32)
        average(self.buffers.values, matches, slots, squared, *self._averaging, values)
        evidence = []
        for action, match in enumerate(matches[0].tolist()):
            if match >= 0:
                own, apart = np.array([match]), np.zeros(1)
            else:
                own, apart = slots[0, action], squared[0, action]
            behind = self._neighbours(action, own, apart)
            number = len(behind.values)
            source = self._source(number, exact=match >= 0)
            counts = source in ("exact", "mean", "weighted_mean")
            weights = normalised_weights(apart[:number], *self._averaging[1:]) if counts else np.zeros(number)
            evidence.append(Evidence(float(values[0, action]), source, behind, weights))
        return evidence

    @property
    def _averaging(self) -> tuple[int, int, float]:
        """`few_neighbours`, `kernel` and `delta` as compiled functions take them."""
        return FEW_NEIGHBOURS.index(self.few_neighbours), KERNELS.index(self.kernel), self.delta

    def _matches(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The slots of states, (n, n_actions), whose stored value is their estimate; -1 elsewhere."""
        return self._store.table.find(keys) if self.exact_matches else np.full((len(keys), self.n_actions), -1)

    def _mark_used(self, matches: NDArray[np.int64], neighbours: NDArray[np.int64]) -> None:
        if self.eviction == "used":
            self._store.mark_used(matches, neighbours)

    def _source(self, found: int, *, exact: bool) -> Source:
        """What an estimate from so many entries is."""
        if exact:
            return "exact"
        if has_mean(found, self.k, FEW_NEIGHBOURS.index(self.few_neighbours)):
            return "mean" if self.kernel == "mean" else "weighted_mean"
        return "zero" if self.few_neighbours == "zero" else "infinity"

    def sample(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Entries]:
        """At most `size` entries, drawn evenly from all buffers, and their actions, int64 (m,)."""
        actions, slots = self.buffers.draw(size, rng)
        return actions, self._store.read(actions, slots)

    # -- Eq. 1: writing -----------------------------------------------------------------------------------------------

    def write(
        self,
        states: ArrayLike,
        actions: ArrayLike,
        returns: ArrayLike,
        identities: Identities | None = None,
        origins: ArrayLike | None = None,
    ) -> None:
        """Store returns in the order given (Eq. 1): a new state and action is added, of a known one the higher stays.

        `update` may be another rule for those that are known.

        states: float32 (n, dim); actions: int (n,); returns: float (n,); identities as in `estimate`; origins: int
        (n, 2), the episode and the frame that each return comes from.
        """
        batch, keys = self._check(np.asarray(states), identities)
        taken = checked_actions(actions, len(batch), self.n_actions)
        values = checked_values(returns, len(batch), "returns")
        sources = np.full((len(batch), 2), -1, np.int32) if origins is None else np.asarray(origins, np.int32)
        if sources.shape != (len(batch), 2):
            raise ValueError(f"{len(batch)} states need as many origins, two numbers each, not {sources.shape}")

        rule = Rule(UPDATES.index(self.update), self.alpha)
        self._store.write(Experience(taken, values, keys, sources), batch, rule)

    def move(self, actions: ArrayLike, slots: ArrayLike, states: ArrayLike, values: ArrayLike) -> None:
        """Give the entries in these places other states and values; of two for one place the later stays.

        Identities, ids, ticks, origins and counts of matches stay, so that a state is known wherever it has moved.

        actions, slots: int (n,), as `nearest` has them; states: float32 (n, dim); values: float (n,).
        """
        taken, places = checked_places(actions, slots, self.buffers.sizes)
        batch = checked_states(states, self.dim)
        if len(batch) != len(taken):
            raise ValueError(f"{len(taken)} places need as many states, not {len(batch)}")
        self._store.move(taken, places, batch, checked_values(values, len(batch), "values"))

    def shift_values(self, actions: ArrayLike, slots: ArrayLike, by: ArrayLike) -> None:
        """Add to the values of the entries in these places, int (n,) each; what is for the same entry adds up.

        The next checkpoint takes their states, too, for a device may have moved them there.
        """
        places = checked_places(actions, slots, self.buffers.sizes)
        np.add.at(self.buffers.values, places, checked_values(by, len(places[0]), "what is added"))
        self.buffers.files[places] = 0

    # -- Entries, to look at and to choose from ------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Entry]:
        """Every entry, buffer by buffer in slot order. Many at once are `entries()`, which is much faster."""
        for part in self._store.in_parts():
            yield from part

    def entries(self, action: int | None = None) -> Entries:
        """A copy of all entries of one action, or of all actions, in the order in which iterating yields them."""
        if action is not None:
            self._check_action(action)
        actions, slots = self.buffers.places()
        own = slice(None) if action is None else actions == action
        return self._store.read(actions[own], slots[own])

    def filter(self, keep: Callable[[Entries], ArrayLike] | ArrayLike) -> int:
        """Forget all entries but those that are to be kept; returns how many were forgotten.

        keep: for every entry, in the order of `entries()`, whether it is kept, bool (len(memory),). Or a function that
        says this for some entries, bool (m,); it is called for 65,536 at a time, so it must judge each by itself.

        What is kept stays as it was, with its place in the order of eviction. The index is made anew, and an agent
        goes on learning from there.

        >>> memory = EpisodicMemory(n_actions=2, dim=1, capacity=10, k=1)
        >>> memory.write([[0.0], [1.0]], actions=[0, 1], returns=[3.0, 5.0])
        >>> memory.filter(lambda entries: entries.values > 4.0)
        1
        """
        kept = which_to_keep(self.buffers, self._store.index, keep)
        forgotten = len(kept) - int(np.count_nonzero(kept))
        if forgotten:
            self._store.keep(kept)
        return forgotten

    def clear(self) -> None:
        """Forget all entries. Entry ids go on, so that none ever means two entries."""
        self.filter(np.zeros(len(self), np.bool_))

    def merge(self, other: EpisodicMemory, *, keep_origins: bool = False) -> int:
        """Write the entries of another memory of the same embedding into this one; returns how many were added.

        Of a state and action that both know, the higher value stays (Eq. 1), or what `update` makes of the two.
        Entries are written in the other's order of eviction, the oldest first, and a full buffer gives up entries for
        them as for any others. Exact matches are counted together.

        keep_origins: whether episode and frame come along. They number what the other's agent played, so they mean
        something else here unless the two memories are of one run; by default they are unknown, -1.
        """
        if not isinstance(other, EpisodicMemory):
            raise TypeError(f"merge takes an EpisodicMemory, such as agent.memory, not {type(other).__name__}")
        refuse_other_memory(self._store, other._store)
        before = self._store.next_entry_id
        for part in other._store.in_parts(oldest_first=True):
            self.write(part.states, part.actions, part.values, part.keys, part.origins if keep_origins else None)
            slots = self._store.table.find(part.keys)[np.arange(len(part)), part.actions]
            there = slots >= 0  # unless the part has more entries than the buffer
            self.buffers.matched[part.actions[there], slots[there]] += part.matched[there]
        return self._store.next_entry_id - before

    def to_dataframe(self, action: int | None = None) -> pandas.DataFrame:
        """All entries, or those of one action, as a pandas DataFrame in the order of `entries()` (extra `export`).

        Its columns are action, value, episode, frame, matched, entry_id, tick, key (as hexadecimal digits), and state,
        whose cells are float32 arrays (dim,).
        """
        return to_dataframe(self.entries(action))

    def to_parquet(self, path: str | Path) -> None:
        """Write all entries to a Parquet file, with the columns of `to_dataframe` (extra `export`).

        A state is a list of `dim` float32 numbers. The file is written in parts and appears when it is whole.
        """
        to_parquet(self._store.in_parts(), self.dim, path)

    # -- Size and storage ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self.buffers.sizes.sum())

    def __repr__(self) -> str:
        return (
            f"EpisodicMemory(n_actions={self.n_actions}, dim={self.dim}, capacity={self.capacity}, k={self.k}, "
            f"index={self.active_index}, entries={len(self)})"
        )

    def _repr_html_(self) -> str:
        return html_table(SUMMARY, self.buffers.summary(), title=repr(self))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Entries in each action's buffer, int64 (n_actions,)."""
        return self.buffers.sizes.copy()

    @property
    def active_index(self) -> str:
        """Name of the index that searches now; under `auto`, exact or cells."""
        return self._store.index.active

    @property
    def measured_recall(self) -> float | None:
        """Share of the true neighbours that the index found in recent checks; None if there were none.

        A check compares a random look-up of an approximate index with a full scan, now and then.
        """
        return self._store.index.measured_recall

    @property
    def nbytes(self) -> int:
        """Bytes of all entries, with index and identity table."""
        return len(self) * self.bytes_per_entry(self.dim, self.active_index) + self._store.table.buckets.nbytes

    @staticmethod
    def bytes_per_entry(dim: int, index: str = "exact") -> int:
        """Bytes of one entry: its state, its part of buffers and index; the identity table is not counted."""
        return 4 * dim + Buffers.bytes_per_entry() + index_bytes_per_entry(index, dim)

    @classmethod
    def bytes_when_full(cls, n_actions: int, dim: int, capacity: int, index: str = "exact") -> int:
        """Bytes that a memory of this shape takes when every buffer is full."""
        return n_actions * (capacity * cls.bytes_per_entry(dim, index) + IdentityTable.bytes_per_buffer(capacity))

    def save(self, path: str | Path) -> None:
        """Write the memory to the directory `path`, atomically.

        Where the directory holds the checkpoint that it wrote or read last, only what has changed since is added.
        """
        write_checkpoint(path, kind="memory", state=self.settings(), tensors={}, growing={"memory": self.parts})

    @classmethod
    def load(
        cls, path: str | Path, *, device: DeviceName | Channel = AgentConfig.device, index: IndexName | None = None
    ) -> EpisodicMemory:
        """Read a memory that `save` wrote, on any device; `index` replaces the one that it had."""
        state, tensors = read_checkpoint(path, kind="memory")
        return cls.restore(state, tensors.get("memory", {}), device=device, index=index)

    def settings(self) -> dict[str, Any]:
        """Everything that is not an array, as JSON takes it."""
        return {
            "n_actions": self.n_actions,
            "dim": self.dim,
            "capacity": self.capacity,
            "k": self.k,
            "kernel": self.kernel,
            "delta": self.delta,
            "index": self.index,
            "recall": self.recall,
            "eviction": self.eviction,
            "update": self.update,
            "alpha": self.alpha,
            "few_neighbours": self.few_neighbours,
            "exact_matches": self.exact_matches,
            **self._store.settings(),
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The entries of all buffers, one after the other in slot order."""
        return self._store.parts.tensors()

    @property
    def parts(self) -> Parts:
        """The entries, as `write_checkpoint` takes what grows."""
        return self._store.parts

    @classmethod
    def restore(
        cls,
        settings: dict[str, Any],
        tensors: Mapping[str, NDArray[Any]] | Files,
        *,
        device: DeviceName | Channel = AgentConfig.device,
        index: IndexName | None = None,
    ) -> EpisodicMemory:
        """The memory that `settings()` and `tensors()`, or the files of a checkpoint, describe, on any device."""
        try:
            store = {name: settings[name] for name in settings if name in STORED}
            options = {name: settings[name] for name in settings if name not in STORED}
            options["index"] = index or options["index"]
            memory = cls(**options, device=device)
            memory._store.restore(store, tensors)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise CheckpointError(f"this is no complete memory: {error}") from None
        return memory

    def _neighbours(self, action: int, slots: NDArray[np.int64], squared: NDArray[np.float64]) -> Neighbours:
        found = slots[slots >= 0]
        entries = self._store.read(np.full(len(found), action), found)
        return Neighbours(**vars(entries), distances=np.sqrt(squared[: len(found)]))

    def _check_action(self, action: int) -> None:
        if not 0 <= action < self.n_actions:
            raise ValueError(f"action must lie in 0..{self.n_actions - 1}, not {action}")

    def _check(self, states: ArrayLike, identities: Identities | None) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        batch = self._check_states(states)
        keys = array_keys(batch) if identities is None else identity_keys(identities)
        if len(keys) != len(batch):
            raise ValueError(f"{len(batch)} states need as many identities, not {len(keys)}")
        return batch, keys

    def _check_states(self, states: ArrayLike) -> NDArray[Any]:
        given = np.asarray(states)
        return given if self._store.index.embeds and given.dtype == np.uint8 else checked_states(states, self.dim)
