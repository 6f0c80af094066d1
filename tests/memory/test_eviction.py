"""The eviction order against a full sort by (tick, entry id)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfec.memory import EpisodicMemory, eviction
from mfec.memory.eviction import QUEUE_LENGTH, EvictionOrder


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(1, 14), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_the_queue_holds_the_oldest_entries_oldest_last(ticks: list[int], length: int, rng: object) -> None:
    entry_ids = list(range(100, 100 + len(ticks)))
    rng.shuffle(entry_ids)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eviction, "QUEUE_LENGTH", length)
        order = EvictionOrder(np.array([ticks, ticks]), np.array([entry_ids, entry_ids]))
    order.refill(1)
    oldest = sorted(range(len(ticks)), key=lambda slot: (ticks[slot], entry_ids[slot]))[:length]
    assert order.queued.tolist() == [0, len(oldest)]
    assert order.queue[1, : len(oldest)].tolist() == [[slot, ticks[slot]] for slot in reversed(oldest)]


@pytest.mark.parametrize("rule", ["updated", "used"])
def test_buffers_longer_than_the_queue_give_up_the_oldest(rule: str) -> None:
    """Several queues' worth of evictions, most of the queued entries touched in between, with many equal ticks."""
    capacity, n = QUEUE_LENGTH + 900, 20_000
    rng = np.random.default_rng(0)
    memory = EpisodicMemory(1, 2, capacity=capacity, k=50, eviction=rule)
    reference = OldestFirst(capacity)
    for start in range(0, n, 40):
        labels = np.where(rng.random(40) < 0.3, rng.integers(0, start + 1, 40), np.arange(start, start + 40))
        states = rng.standard_normal((40, 2)).astype(np.float32)
        memory.write(states, np.zeros(40, np.int64), np.zeros(40), labels)
        for label in labels.tolist():
            reference.write(label)
        for _ in range(4 * (rule == "used")):
            state = rng.standard_normal(2).astype(np.float32)
            near = memory.neighbours(state, 0).entry_ids
            memory.estimate(state[None], [-1])
            reference.use(near)
    assert memory.settings()["next_entry_id"] > 2 * QUEUE_LENGTH + capacity
    assert sorted(memory.tensors()["entry_ids"].tolist()) == sorted(reference.entry_ids[: len(memory)].tolist())


class OldestFirst:
    """One buffer whose oldest entry is looked for among all of them, every time."""

    def __init__(self, capacity: int) -> None:
        self.labels: dict[int, int] = {}  # label to slot
        self.label_of = [0] * capacity
        self.ticks = np.full(capacity, -1)
        self.entry_ids = np.full(capacity, -1)
        self.tick = self.next_entry_id = 0

    def write(self, label: int) -> None:
        if label not in self.labels:
            slot = len(self.labels)
            if slot == len(self.ticks):
                oldest = np.flatnonzero(self.ticks == self.ticks.min())
                slot = int(oldest[self.entry_ids[oldest].argmin()])
                del self.labels[self.label_of[slot]]
            self.labels[label], self.label_of[slot] = slot, label
            self.entry_ids[slot] = self.next_entry_id
            self.next_entry_id += 1
        self.ticks[self.labels[label]] = self.tick
        self.tick += 1

    def use(self, entry_ids: np.ndarray) -> None:
        self.ticks[np.isin(self.entry_ids, entry_ids)] = self.tick
        self.tick += 1
