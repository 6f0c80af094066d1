"""A reference of plain dictionaries and full sorts, written from the paper, and what tests tell it and a memory."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from mfec.memory import Entries, EpisodicMemory
from mfec.memory.neighbours import auto
from mfec.memory.neighbours.recent import RecentQueries

State = tuple[float, ...]
Identity = int | bytes

# While a buffer holds no more than are ranked by true distance, all of them are exact.
INDEXES = ("exact", "cells", "auto", "cuda")
ACTIVE = {"exact": "exact", "cells": "cells", "auto": "cells", "cuda": "cuda"}  # once there are some entries
every_index = pytest.mark.parametrize(
    "index", [pytest.param(index, marks=pytest.mark.torch) if index == "cuda" else index for index in INDEXES]
)


@pytest.fixture(autouse=True)
def early_change() -> Iterator[None]:
    """Let `auto` change from exact search to cells at 5 entries and one look-up, and whatever the clock says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto, "FIRST_TRIAL", 5)
        patch.setattr(RecentQueries, "full", property(lambda queries: queries.seen > 0))
        patch.setattr(auto, "milliseconds", lambda index, *_: 1.0 if index.name == "exact" else 0.5)
        yield


# -- The reference ----------------------------------------------------------------------------------------------------


@dataclass
class Entry:
    state: State
    value: float
    entry_id: int
    tick: int


class ReferenceMemory:
    """Q_EC by the letter: one dictionary for each action, everything sorted in full, no arrays."""

    def __init__(
        self,
        n_actions: int,
        capacity: int,
        k: int,
        eviction: str,
        update: str,
        few_neighbours: str,
        kernel: str = "mean",
        delta: float = 0.001,
        alpha: float = 0.1,
        exact_matches: bool = True,
    ) -> None:
        self.capacity, self.k, self.kernel, self.delta, self.alpha = capacity, k, kernel, delta, alpha
        self.exact_matches = exact_matches
        self.eviction, self.update, self.few_neighbours = eviction, update, few_neighbours
        self.buffers: list[dict[Identity, Entry]] = [{} for _ in range(n_actions)]
        self.tick = 0
        self.next_entry_id = 0

    def write(self, states: Sequence[State], actions: Sequence[int], returns: Sequence[float], names: Any) -> None:
        for state, action, ret, identity in zip(states, actions, returns, self.identities(states, names), strict=True):
            buffer = self.buffers[action]
            if identity in buffer:
                entry = buffer[identity]
                latest = float32(ret)
                step = float32(entry.value + self.alpha * (latest - entry.value))
                entry.value = {"max": max(entry.value, latest), "replace": latest, "step": step}[self.update]
                entry.state = state if self.update == "step" else entry.state
                entry.tick = self.tick
            else:
                if len(buffer) == self.capacity:
                    del buffer[min(buffer, key=lambda name: (buffer[name].tick, buffer[name].entry_id))]
                buffer[identity] = Entry(state, float32(ret), self.next_entry_id, self.tick)
                self.next_entry_id += 1
            self.tick += 1

    def estimate(
        self, states: Sequence[State], names: Any, mark_used: bool
    ) -> tuple[list[list[float]], list[list[bool]]]:
        values, exact = [], []
        for state, identity in zip(states, self.identities(states, names), strict=True):
            values.append([])
            exact.append([])
            for action, buffer in enumerate(self.buffers):
                match = buffer.get(identity) if self.exact_matches else None
                read = [match] if match else self.nearest(state, action, self.k)
                values[-1].append(match.value if match else self.mean(state, read))
                exact[-1].append(match is not None)
                if mark_used:
                    self.use(read)
            self.tick += mark_used and self.eviction == "used"
        return values, exact

    def use(self, entries: list[Entry]) -> None:
        for entry in entries if self.eviction == "used" else []:
            entry.tick = self.tick

    def mean(self, state: State, entries: list[Entry]) -> float:
        if len(entries) == self.k or (entries and self.few_neighbours == "mean"):
            if self.kernel == "mean":
                total = 0.0
                for entry in entries:
                    total += entry.value
                return float32(total / len(entries))
            total = weights = 0.0
            for entry in entries:
                weight = 1.0 / (squared_distance(entry.state, state) + self.delta)
                total += weight * entry.value
                weights += weight
            return float32(total / weights)
        return 0.0 if self.few_neighbours == "zero" else math.inf

    def nearest(self, state: State, action: int, k: int) -> list[Entry]:
        order = sorted(self.buffers[action].values(), key=lambda e: (squared_distance(e.state, state), e.entry_id))
        return order[:k]

    @staticmethod
    def identities(states: Sequence[State], names: Any) -> list[Identity]:
        if names is None:
            return [struct.pack(f"={len(state)}f", *state) for state in states]
        return list(names)


def float32(number: float) -> float:
    return struct.unpack("f", struct.pack("f", number))[0]


def squared_distance(a: State, b: State) -> float:
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += (x - y) * (x - y)
    return total


# -- Comparing the two ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """Which entries to keep: by a number that can be read off an entry, and whether that lies below a limit."""

    kind: str
    limit: float

    def of_all(self, entries: Entries) -> Any:
        numbers = {"value": entries.values, "x": entries.states[:, 0], "id": entries.entry_ids % 3}
        return numbers[self.kind] < self.limit

    def of_one(self, entry: Entry) -> bool:
        return {"value": entry.value, "x": entry.state[0], "id": entry.entry_id % 3}[self.kind] < self.limit


class Pair:
    """A memory and its reference, told the same things."""

    def __init__(self, n_actions: int, dim: int, **options: Any) -> None:
        self.dim = dim
        self.memory = EpisodicMemory(n_actions, dim, **options)
        del options["index"]
        self.reference = ReferenceMemory(n_actions, **options)

    def write(self, states: Sequence[State], actions: Sequence[int], returns: Sequence[float], names: Any) -> None:
        self.memory.write(states, actions, returns, names)
        self.reference.write(states, actions, returns, names)
        self.compare_sizes()

    def estimate(self, states: Sequence[State], names: Any, mark_used: bool) -> None:
        estimates = self.memory.estimate(states, names, mark_used=mark_used)
        values, exact = self.reference.estimate(states, names, mark_used)
        assert estimates.values.dtype == np.float32
        assert estimates.values.tolist() == values
        assert estimates.exact.tolist() == exact

    def nearest(self, states: Sequence[State], actions: Sequence[int], mark_used: bool) -> None:
        slots, squared = self.memory.nearest(states, actions, mark_used=mark_used)
        reference, k = self.reference, self.reference.k
        assert (slots.dtype, slots.shape) == (np.int64, (len(states), k))
        assert (squared.dtype, squared.shape) == (np.float64, (len(states), k))
        for row, (state, action) in enumerate(zip(states, actions, strict=True)):
            near = reference.nearest(state, action, k)
            there = slots[row, : len(near)]
            assert self.memory.at([action] * len(near), there).entry_ids.tolist() == [entry.entry_id for entry in near]
            assert squared[row].tolist() == [
                *(squared_distance(entry.state, state) for entry in near),
                *[math.inf] * (k - len(near)),
            ]
            assert (slots[row, len(near) :] == -1).all()
            if mark_used:
                reference.use(near)
                reference.tick += reference.eviction == "used"

    def move(self, picks: Sequence[int], states: Sequence[State], values: Sequence[float]) -> None:
        """Move the entries at these positions, counted around, of all that there are."""
        actions, slots = self.memory.buffers.places()
        picked = [pick % len(slots) for pick in picks if len(slots)]
        states, values = states[: len(picked)], values[: len(picked)]
        ids = self.memory.entries().entry_ids[picked].tolist()
        shape = (len(picked), self.dim)
        self.memory.move(actions[picked], slots[picked], np.reshape(states, shape), values)
        by_id = {entry.entry_id: entry for buffer in self.reference.buffers for entry in buffer.values()}
        for entry_id, state, value in zip(ids, states, values, strict=True):
            by_id[entry_id].state, by_id[entry_id].value = state, float32(value)

    def reload(self) -> None:
        """What a checkpoint keeps goes on as if nothing had been."""
        self.memory = EpisodicMemory.restore(self.memory.settings(), self.memory.tensors())

    def filter(self, rule: Rule, by_mask: bool) -> None:
        before = len(self.memory)
        forgotten = self.memory.filter(rule.of_all(self.memory.entries()) if by_mask else rule.of_all)
        self.reference.buffers = [
            {identity: entry for identity, entry in buffer.items() if rule.of_one(entry)}
            for buffer in self.reference.buffers
        ]
        assert forgotten == before - len(self.memory)
        self.compare_sizes()

    def clear(self) -> None:
        self.memory.clear()
        self.reference.buffers = [{} for _ in self.reference.buffers]
        self.compare_sizes()

    def merge(self, other: Pair) -> None:
        theirs = [
            (entry.tick, entry.entry_id, action, identity, entry)
            for action, buffer in enumerate(other.reference.buffers)
            for identity, entry in buffer.items()
        ]
        known = []  # those of the same action first: states that have moved differ between actions
        for _, _, action, identity, entry in theirs:
            buffers = [self.reference.buffers[action], *self.reference.buffers]
            known += [(buffer[identity], entry) for buffer in buffers if identity in buffer][:1]
        if 2 * sum(ours.state != entry.state for ours, entry in known) > len(known):
            with pytest.raises(ValueError, match="their embeddings differ"):
                self.memory.merge(other.memory)
            return
        before = self.reference.next_entry_id
        new = self.memory.merge(other.memory)
        for *_, action, identity, entry in sorted(theirs, key=lambda own: own[:2]):
            self.reference.write([entry.state], [action], [entry.value], [identity])
        assert new == self.reference.next_entry_id - before
        self.compare_sizes()

    def compare_sizes(self) -> None:
        sizes = [len(buffer) for buffer in self.reference.buffers]
        assert self.memory.sizes.tolist() == sizes
        assert len(self.memory) == sum(sizes)

    def compare_neighbours(self, state: State) -> None:
        for action in range(len(self.reference.buffers)):
            same_neighbours(self.memory, state, action, self.reference.nearest(state, action, self.reference.k))

    def compare_entries(self) -> None:
        """Everything that is stored, ticks included, and the order of all of it around the origin."""
        kept, reference = self.memory.settings(), self.reference
        assert (kept["tick"], kept["next_entry_id"]) == (reference.tick, reference.next_entry_id)
        tensors = self.memory.tensors()
        ends = np.cumsum(tensors["sizes"]).tolist()
        for action, buffer in enumerate(reference.buffers):
            rows = slice(ends[action] - len(buffer), ends[action])
            stored = zip(
                tensors["entry_ids"][rows].tolist(),
                tensors["ticks"][rows].tolist(),
                tensors["values"][rows].tolist(),
                map(tuple, tensors["states"][rows].tolist()),
                strict=True,
            )
            assert sorted(stored) == sorted((e.entry_id, e.tick, e.value, e.state) for e in buffer.values())
        everything = EpisodicMemory.restore({**kept, "k": reference.capacity + 1}, tensors)
        for action in range(len(reference.buffers)):
            origin = (0.0,) * self.dim
            same_neighbours(everything, origin, action, reference.nearest(origin, action, reference.capacity + 1))


def same_neighbours(memory: EpisodicMemory, state: State, action: int, entries: list[Entry]) -> None:
    found = memory.neighbours(state, action)
    assert found.entry_ids.tolist() == [entry.entry_id for entry in entries]
    assert found.values.tolist() == [entry.value for entry in entries]
    assert [tuple(row) for row in found.states.tolist()] == [entry.state for entry in entries]
    assert found.distances.tolist() == [math.sqrt(squared_distance(entry.state, state)) for entry in entries]


# -- Long random sequences --------------------------------------------------------------------------------------------

N_ACTIONS = 2

options = st.fixed_dictionaries(
    {
        "capacity": st.integers(1, 6),
        "k": st.integers(1, 5),
        "eviction": st.sampled_from(["updated", "used"]),
        "update": st.sampled_from(["max", "replace", "step"]),
        "alpha": st.sampled_from([0.1, 0.7, 1.0]),
        "delta": st.sampled_from([0.001, 2.0]),
        "exact_matches": st.booleans(),
        "few_neighbours": st.sampled_from(["infinity", "mean", "zero"]),
        "kernel": st.sampled_from(["mean", "inverse"]),
    }
)
# On a 4 x 4 grid nearly every search has ties, and a third of the writes meet a known state.
grid_states = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda cell: (float(cell[0]), float(cell[1])))
thirds = st.integers(-9, 9).map(lambda n: n / 3)  # not float32 numbers


@st.composite
def names(draw: st.DrawFn, n: int) -> Any:
    given_as = draw(st.sampled_from(["state", "int", "bytes"]))
    if given_as == "state":
        return None
    some = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    return some if given_as == "int" else [bytes([number]) for number in some]


@st.composite
def operations(draw: st.DrawFn) -> tuple[Any, ...]:
    states = draw(st.lists(grid_states, min_size=1, max_size=4))
    n = len(states)
    kind = draw(st.sampled_from(["write", "write", "write", "estimate", "estimate", "nearest", "move", "reload"]))
    if kind == "write":
        actions = draw(st.lists(st.integers(0, N_ACTIONS - 1), min_size=n, max_size=n))
        return "write", states, actions, draw(st.lists(thirds, min_size=n, max_size=n)), draw(names(n))
    if kind == "nearest":
        return kind, states, draw(st.lists(st.integers(0, N_ACTIONS - 1), min_size=n, max_size=n)), draw(st.booleans())
    if kind == "move":
        picks = draw(st.lists(st.integers(0, 11), min_size=n, max_size=n))
        return kind, picks, states, draw(st.lists(thirds, min_size=n, max_size=n))
    if kind == "reload":
        return (kind,)
    return "estimate", states, draw(names(n)), draw(st.booleans())
