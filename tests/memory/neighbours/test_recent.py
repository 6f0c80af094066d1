"""Recent queries against a list of everything that was looked up."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mfec.memory.neighbours.recent import EVERY, KEPT, RecentQueries


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 3 * EVERY * KEPT)), max_size=20))
@settings(max_examples=60)
def test_every_sixteenth_of_the_last_look_ups_is_kept(batches: list[int]) -> None:
    queries, asked = RecentQueries(2), 0
    for n in batches:
        numbers = np.arange(asked, asked + n, dtype=np.float32)
        queries.add(np.stack([numbers, -numbers], axis=1))
        asked += n
        assert queries.seen == asked
        expected = list(range(0, asked, EVERY))[-KEPT:]
        assert sorted(queries.states.tolist()) == [[number, -number] for number in expected]


def test_there_are_none_before_the_first_look_up() -> None:
    assert RecentQueries(3).states.shape == (0, 3)
    assert (EVERY, KEPT) == (16, 64)


def test_queries_are_copied() -> None:
    queries, states = RecentQueries(2), np.ones((3, 2), np.float32)
    queries.add(states)
    states[:] = 5
    assert queries.states.tolist() == [[1, 1]]
