"""The episodic memory Q_EC: one buffer of (state, value) pairs for each action (Blundell et al., 2016, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfec.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from mfec.compiling import announce_compiling
from mfec.config import AgentConfig, DeviceName, Eviction, FewNeighbours, IndexName, Kernel, Update
from mfec.device import Channel, device_name
from mfec.html_table import html_table
from mfec.memory.buffers import SUMMARY, Buffers
from mfec.memory.compiled import (
    Experience,
    average,
    count_matches,
    enter_all,
    has_mean,
    Rule,
    normalised_weights,
    set_ticks,
    write_rows,
)
from mfec.memory.entries import AT_ONCE, Entries, Entry, read_entries, read_in_parts, which_to_keep
from mfec.memory.estimates import Estimates, Evidence, Neighbours, Source
from mfec.memory.eviction import EvictionOrder
from mfec.memory.export import to_dataframe, to_parquet
from mfec.memory.identities import Identities, IdentityTable, array_keys, identity_keys
from mfec.memory.merging import refuse_other_embedding
from mfec.memory.neighbours import index_bytes_per_entry, make_index

if TYPE_CHECKING:
    import pandas

AnyUpdate = Literal[Update, "step"]

FEW_NEIGHBOURS, KERNELS, UPDATES = get_args(FewNeighbours), get_args(Kernel), get_args(AnyUpdate)
DELTA, ALPHA = 1e-3, 0.1  # of Neural Episodic Control (Pritzel et al., 2017); it gives no alpha, others have 0.1
SMALLEST_DELTA = 1e-30  # so that no weighted sum of float32 numbers overflows
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
            `replace` the latest (the paper's footnote), `step` moves it by `alpha` of the way to the latest.
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
        for name, number in (("n_actions", n_actions), ("dim", dim), ("capacity", capacity), ("k", k)):
            if not isinstance(number, (int, np.integer)) or number < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {number!r}")
        if not 0.0 < recall <= 1.0:
            raise ValueError(f"recall must lie above 0 and not above 1, not {recall}")
        if not SMALLEST_DELTA <= delta < np.inf:
            raise ValueError(f"delta must be a finite number of at least {SMALLEST_DELTA}, not {delta}")
        if not 0.0 < alpha <= 1.0:
            raise ValueError(f"alpha must lie above 0 and not above 1, not {alpha}")
        if capacity >= 2**30:
            raise ValueError(f"capacity must be below 2**30 entries per action, not {capacity}")
        for name, given, allowed in (
            ("kernel", kernel, KERNELS),
            ("eviction", eviction, get_args(Eviction)),
            ("update", update, UPDATES),
            ("few_neighbours", few_neighbours, FEW_NEIGHBOURS),
            ("device", device_name(device), get_args(DeviceName)),
        ):
            if given not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {given!r}")
        self.n_actions, self.dim, self.capacity, self.k = int(n_actions), int(dim), int(capacity), int(k)
        self.recall, self.delta, self.alpha = float(recall), float(delta), float(alpha)
        self.exact_matches = bool(exact_matches)
        self.kernel: Kernel = kernel
        self.eviction: Eviction = eviction
        self.update: AnyUpdate = update
        self.few_neighbours: FewNeighbours = few_neighbours

        self.buffers = Buffers(self.n_actions, self.capacity)
        self._table = IdentityTable(self.buffers.keys)
        self._order = EvictionOrder(self.buffers.ticks, self.buffers.entry_ids)
        self.index: IndexName = index  # as it was asked for
        shape = (self.n_actions, self.capacity, self.dim)
        self._index = make_index(index, shape, self.buffers.entry_ids, k=self.k, recall=self.recall, device=device)
        self._tick = 0
        self._next_entry_id = 0

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SETTINGS and name in vars(self):
            raise AttributeError(
                f"{name} is fixed when a memory is made, EpisodicMemory(..., {name}=...), so that its settings say how "
                "its values came about"
            )
        super().__setattr__(name, value)

    def embed_with(self, embedding: Any) -> bool:
        """Let the index embed observations, if it can; `estimate` then takes these, uint8 (n, size)."""
        return self._index.embed_with(embedding)

    # -- Eq. 2: reading -----------------------------------------------------------------------------------------------

    def estimate(self, states: ArrayLike, identities: Identities | None = None, *, mark_used: bool = True) -> Estimates:
        """The value of every action in every state (Eq. 2).

        An exact match has its stored value, unless `exact_matches` is off. Any other state has the mean of its k nearest neighbours in the action's
        buffer, weighted as `kernel` says. `mark_used=False` leaves no trace: it changes neither the eviction order, nor
        the measured recall, nor the index.

        states: float32 (n, dim), or observations after `embed_with`; identities: n bytes or integers, by default the
        states' own bytes.
        """
        batch, keys = self._check(states, identities)
        matches = self._matches(keys)
        exact = matches >= 0
        found = self._index.search(batch, ~exact, self.k, learning=mark_used)
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
        taken = self._check_actions(actions, len(batch))
        rows = np.arange(len(batch))
        wanted = np.zeros((len(batch), self.n_actions), np.bool_)
        wanted[rows, taken] = True
        found = self._index.search(batch, wanted, self.k, learning=mark_used)
        if mark_used:
            self._mark_used(np.full(wanted.shape, -1), found.slots)
        return found.slots[rows, taken], found.squared[rows, taken]

    def at(self, actions: ArrayLike, slots: ArrayLike) -> Entries:
        """A copy of the entries in these places, int (n,) each; slots are those of `nearest`."""
        return self._entries(*self._check_places(actions, slots))

    def neighbours(self, state: ArrayLike, action: int) -> Neighbours:
        """The nearest entries of one action's buffer, at most k, as they enter the estimate of a new state."""
        self._check_action(action)
        batch, _ = self._check(np.asarray(state)[None], None)
        wanted = np.zeros((1, self.n_actions), np.bool_)
        wanted[0, action] = True
        found = self._index.search(batch, wanted, self.k)
        return self._neighbours(action, found.slots[0, action], found.squared[0, action])

    def evidence(self, state: ArrayLike, identity: Identities | None = None) -> list[Evidence]:
        """For each action, the estimate in one state and the entries behind it. It leaves no trace.

        state: float32 (1, dim), or an observation after `embed_with`; identity: one, as in `estimate`.
        """
        batch, keys = self._check(state, identity)
        if len(keys) != 1:
            raise ValueError(f"evidence is about one state, not {len(keys)}")
        matches = self._matches(keys)
        found = self._index.search(batch, matches < 0, self.k)
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
        return self._table.find(keys) if self.exact_matches else np.full((len(keys), self.n_actions), -1)

    def _mark_used(self, matches: NDArray[np.int64], neighbours: NDArray[np.int64]) -> None:
        if self.eviction == "used":
            set_ticks(self.buffers.ticks, self._tick, matches, neighbours)
            self._tick += len(matches)

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
        return actions, self._entries(actions, slots)

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
        taken = self._check_actions(actions, len(batch))
        values = _check_values(returns, len(batch), "returns")
        sources = np.full((len(batch), 2), -1, np.int32) if origins is None else np.asarray(origins, np.int32)
        if sources.shape != (len(batch), 2):
            raise ValueError(f"{len(batch)} states need as many origins, two numbers each, not {sources.shape}")

        rule = Rule(UPDATES.index(self.update), self.alpha)
        experience = Experience(taken, values, keys, sources)
        slots = np.empty(len(batch), np.int64)  # where a row became a new entry, else -1
        row = 0
        while row < len(batch):  # the compiled loop returns early only if the eviction queue runs out
            row = write_rows(
                experience, row, rule, self.buffers.arrays, self._table.buckets,
                self._order.queue, self._order.queued, self._tick, self._next_entry_id, slots,
            )  # fmt: skip
            if row < len(batch):
                self._order.refill(int(taken[row]))
        self._tick += len(batch)
        added = slots >= 0
        self._next_entry_id += int(added.sum())
        self._index.put(taken[added], slots[added], batch[added])

    def move(self, actions: ArrayLike, slots: ArrayLike, states: ArrayLike, values: ArrayLike) -> None:
        """Give the entries in these places other states and values; of two for one place the later stays.

        Identities, ids, ticks, origins and counts of matches stay, so that a state is known wherever it has moved.

        actions, slots: int (n,), as `nearest` has them; states: float32 (n, dim); values: float (n,).
        """
        taken, places = self._check_places(actions, slots)
        batch = self._check_states(states, embeds=False)
        if len(batch) != len(taken):
            raise ValueError(f"{len(taken)} places need as many states, not {len(batch)}")
        self.buffers.values[taken, places] = _check_values(values, len(batch), "values")
        self._index.put(taken, places, batch)

    # -- Entries, to look at and to choose from ------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Entry]:
        """Every entry, buffer by buffer in slot order. Many at once are `entries()`, which is much faster."""
        for part in read_in_parts(self.buffers, self._index):
            yield from part

    def entries(self, action: int | None = None) -> Entries:
        """A copy of all entries of one action, or of all actions, in the order in which iterating yields them."""
        if action is not None:
            self._check_action(action)
        actions, slots = self.buffers.places()
        own = slice(None) if action is None else actions == action
        return self._entries(actions[own], slots[own])

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
        kept = which_to_keep(self.buffers, self._index, keep)
        forgotten = len(kept) - int(np.count_nonzero(kept))
        if forgotten:
            actions, slots = (places[kept] for places in self.buffers.places())
            self._index.keep(actions, slots)
            front = self.buffers.keep(actions, slots)
            self._table.buckets[:] = 0
            enter_all(self._table.buckets, self.buffers.keys, *front)
            self._order.forget()
        return forgotten

    def clear(self) -> None:
        """Forget all entries. Entry ids go on, so that none ever means two entries."""
        self.filter(np.zeros(len(self), np.bool_))

    def merge(self, other: EpisodicMemory, *, keep_origins: bool = False) -> int:
        """Write the entries of another memory of the same embedding into this one; returns how many were added.

        Of a state and action that both know, the higher value stays (Eq. 1), or the other's under `update="replace"`.
        Entries are written in the other's order of eviction, the oldest first, and a full buffer gives up entries for
        them as for any others. Exact matches are counted together.

        keep_origins: whether episode and frame come along. They number what the other's agent played, so they mean
        something else here unless the two memories are of one run; by default they are unknown, -1.
        """
        if not isinstance(other, EpisodicMemory):
            raise TypeError(f"merge takes an EpisodicMemory, such as agent.memory, not {type(other).__name__}")
        if other is self:
            raise ValueError("a memory cannot be merged with itself")
        if (other.n_actions, other.dim) != (self.n_actions, self.dim):
            raise ValueError(
                f"this memory has {self.n_actions} actions and states of {self.dim} numbers, the other "
                f"{other.n_actions} and {other.dim}"
            )
        self._check_embedding_of(other)
        before = self._next_entry_id
        for part in read_in_parts(other.buffers, other._index, oldest_first=True):
            self.write(part.states, part.actions, part.values, part.keys, part.origins if keep_origins else None)
            slots = self._table.find(part.keys)[np.arange(len(part)), part.actions]
            there = slots >= 0  # unless the part has more entries than the buffer
            self.buffers.matched[part.actions[there], slots[there]] += part.matched[there]
        return self._next_entry_id - before

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
        to_parquet(read_in_parts(self.buffers, self._index), self.dim, path)

    def _check_embedding_of(self, other: EpisodicMemory) -> None:
        """Raise if states of another memory are not those of this one, as far as both know the same observations."""
        actions, slots = other.buffers.places()
        some = slice(None, None, max(1, len(actions) // AT_ONCE))
        theirs = other._entries(actions[some], slots[some])
        matches = self._table.find(theirs.keys)
        rows = np.flatnonzero((matches >= 0).any(axis=1))
        own = (matches[rows] >= 0).argmax(axis=1)
        refuse_other_embedding(self._entries(own, matches[rows, own]).states, theirs.states[rows])

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
        return self._index.active

    @property
    def measured_recall(self) -> float | None:
        """Share of the true neighbours that the index found in recent checks; None if there were none.

        A check compares a random look-up of an approximate index with a full scan, now and then.
        """
        return self._index.measured_recall

    @property
    def nbytes(self) -> int:
        """Bytes of all entries, with index and identity table."""
        return len(self) * self.bytes_per_entry(self.dim, self.active_index) + self._table.buckets.nbytes

    @staticmethod
    def bytes_per_entry(dim: int, index: str = "exact") -> int:
        """Bytes of one entry: its state, its part of buffers and index; the identity table is not counted."""
        return 4 * dim + Buffers.bytes_per_entry() + index_bytes_per_entry(index, dim)

    @classmethod
    def bytes_when_full(cls, n_actions: int, dim: int, capacity: int, index: str = "exact") -> int:
        """Bytes that a memory of this shape takes when every buffer is full."""
        return n_actions * (capacity * cls.bytes_per_entry(dim, index) + IdentityTable.bytes_per_buffer(capacity))

    def save(self, path: str | Path) -> None:
        """Write the memory to the directory `path`, atomically."""
        write_checkpoint(path, kind="memory", state=self.settings(), tensors={"memory": self.tensors()})

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
            "tick": self._tick,
            "next_entry_id": self._next_entry_id,
            "index_kind": self._index.name,
            "index_state": self._index.settings(),
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The entries of all buffers, one after the other in slot order."""
        index = {f"index.{name}": tensor for name, tensor in self._index.tensors().items()}
        return {**self.buffers.tensors(), "states": self._index.rows(*self.buffers.places()), **index}

    @classmethod
    def restore(
        cls,
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
        *,
        device: DeviceName | Channel = AgentConfig.device,
        index: IndexName | None = None,
    ) -> EpisodicMemory:
        """The memory that `settings()` and `tensors()` describe, on any device."""
        try:
            options = dict(settings)
            tick, next_entry_id = int(options.pop("tick")), int(options.pop("next_entry_id"))
            index_state = options.pop("index_state", {})
            kind = options.pop("index_kind")
            index_bytes_per_entry(kind, 1)  # raises if there is no such kind
            options["index"] = index or options["index"]
            memory = cls(**options, device=device)
            actions, slots = memory.buffers.restore(tensors)
            states = tensors["states"]
            if states.dtype != np.float32 or states.shape != (len(actions), memory.dim):
                raise ValueError("its tensor 'states' does not fit its settings")
            of_index = {name[6:]: tensor for name, tensor in tensors.items() if name.startswith("index.")}
            if kind == memory._index.name:
                memory._index.restore(actions, slots, states, index_state, of_index)
            else:  # an index cannot use the settings and tensors of another kind
                memory._index.put(actions, slots, states)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise CheckpointError(f"this is no complete memory: {error}") from None
        enter_all(memory._table.buckets, memory.buffers.keys, actions, slots)
        memory._tick, memory._next_entry_id = tick, next_entry_id
        return memory

    def _neighbours(self, action: int, slots: NDArray[np.int64], squared: NDArray[np.float64]) -> Neighbours:
        found = slots[slots >= 0]
        entries = self._entries(np.full(len(found), action), found)
        return Neighbours(**vars(entries), distances=np.sqrt(squared[: len(found)]))

    def _entries(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> Entries:
        return read_entries(self.buffers, self._index, actions, slots)

    def _check_action(self, action: int) -> None:
        if not 0 <= action < self.n_actions:
            raise ValueError(f"action must lie in 0..{self.n_actions - 1}, not {action}")

    def _check_actions(self, actions: ArrayLike, n: int) -> NDArray[np.int64]:
        taken = _check_integers(actions, n, "actions")
        wrong = taken[(taken < 0) | (taken >= self.n_actions)]
        if len(wrong):
            raise ValueError(f"actions must lie in 0..{self.n_actions - 1}, not {wrong[0]}")
        return taken.astype(np.int64)

    def _check_places(self, actions: ArrayLike, slots: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        taken = self._check_actions(actions, np.size(actions))
        places = _check_integers(slots, len(taken), "slots")
        empty = np.flatnonzero((places < 0) | (places >= self.buffers.sizes[taken]))
        if len(empty):
            action, slot = taken[empty[0]], places[empty[0]]
            size = self.buffers.sizes[action]
            raise ValueError(f"there is no entry in slot {slot} of action {action}, whose buffer holds {size}")
        return taken, places.astype(np.int64)

    def _check(self, states: ArrayLike, identities: Identities | None) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        batch = self._check_states(states)
        keys = array_keys(batch) if identities is None else identity_keys(identities)
        if len(keys) != len(batch):
            raise ValueError(f"{len(batch)} states need as many identities, not {len(keys)}")
        return batch, keys

    def _check_states(self, states: ArrayLike, *, embeds: bool = True) -> NDArray[Any]:
        given = np.asarray(states)
        if embeds and self._index.embeds and given.dtype == np.uint8:
            return given
        with np.errstate(over="ignore"):
            batch = np.ascontiguousarray(states, np.float32)
        if batch.ndim != 2 or batch.shape[1] != self.dim:
            raise ValueError(f"states must have the shape (n, {self.dim}), not {batch.shape}")
        if not np.isfinite(batch).all():
            raise ValueError("states must be finite numbers")
        return batch


def _check_integers(given: ArrayLike, n: int, what: str) -> NDArray[Any]:
    numbers = np.asarray(given)
    if numbers.shape != (n,):
        raise ValueError(f"{what} must be {n} numbers in a row, not of shape {numbers.shape}")
    if n and numbers.dtype.kind not in "iu":
        raise ValueError(f"{what} must be integers, not {numbers.dtype}")
    return numbers


def _check_values(given: ArrayLike, n: int, what: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        values = np.asarray(given, np.float32)
    if values.shape != (n,):
        raise ValueError(f"{what} must be {n} numbers in a row, not of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{what} must be finite float32 numbers")
    return values
