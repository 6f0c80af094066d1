"""Jobs and pairs of a merged search against plain loops over requests, rows and actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.device.plan import Plan


@dataclass
class Asked:
    """One request: its mask, the sizes of its buffers, and where its page table lies."""

    wanted: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    table: tuple[int, int]


@st.composite
def requests(draw: st.DrawFn) -> list[Asked]:
    asked = []
    for number in range(draw(st.integers(1, 4))):
        n, n_actions = draw(st.integers(1, 11)), draw(st.integers(1, 4))
        mask = draw(st.lists(st.booleans(), min_size=n * n_actions, max_size=n * n_actions))
        sizes = draw(st.lists(st.sampled_from([0, 0, 1, 32, 5000]), min_size=n_actions, max_size=n_actions))
        address = 1_000_000 * (number + 1)
        asked.append(Asked(np.array(mask).reshape(n, n_actions), np.array(sizes), (address, 8 * (number + 2))))
    return asked


def plan_of(asked: list[Asked], most: int) -> Plan:
    return Plan([a.wanted for a in asked], [a.sizes for a in asked], [a.table for a in asked], most)


def all_pairs(asked: list[Asked]) -> dict[tuple[int, int], tuple[int, int, int]]:
    """(row, action) of everything to be searched, to: request, row within it, entries."""
    pairs, first = {}, 0
    for number, a in enumerate(asked):
        for row, action in np.argwhere(a.wanted).tolist():
            if a.sizes[action]:
                pairs[first + row, action] = number, row, int(a.sizes[action])
        first += len(a.wanted)
    return pairs


@given(requests(), st.sampled_from([1, 2, 4, 8, 32]))
@settings(max_examples=200)
def test_every_wanted_buffer_with_entries_is_searched_once_for_every_row(asked: list[Asked], most: int) -> None:
    plan = plan_of(asked, most)
    longest = max(len(a.wanted) for a in asked)
    assert plan.width == min(most, next(2**i for i in range(9) if 2**i >= longest))
    assert plan.chunks == sum(-(-len(a.wanted) // plan.width) for a in asked), "a chunk has rows of one request alone"
    expected = all_pairs(asked)
    assert sorted((row, action) for _, _, row, action in plan.pairs.tolist()) == sorted(expected)
    assert plan.largest == max((size for *_, size in expected.values()), default=0)

    jobs: dict[int, set[tuple[Any, ...]]] = {}
    for job, place, row, action in plan.pairs.tolist():
        request, row_of_request, size = expected[row, action]
        address, entries, chunk, _ = plan.jobs[job].tolist()
        begin, row_bytes = asked[request].table
        assert (address, entries) == (begin + action * row_bytes, size)
        assert place // plan.width == job, "the minima of a job's queries lie together"
        where = chunk * plan.width + place % plan.width
        assert where == plan.places[request] + row_of_request, "the job reads this query where it lies"
        jobs.setdefault(job, set()).add((request, chunk, action))
    assert sorted(jobs) == list(range(len(plan.jobs))), "no job without a pair"
    assert all(len(of_job) == 1 for of_job in jobs.values())
    assert len({next(iter(of_job)) for of_job in jobs.values()}) == len(jobs), "one pass for each chunk and buffer"
    assert (np.diff(plan.pairs[:, 0]) >= 0).all(), "goes over some jobs take the pairs of these"


@given(requests(), st.sampled_from([2, 32]))
@settings(max_examples=50)
def test_every_request_has_chunks_of_its_own(asked: list[Asked], most: int) -> None:
    plan = plan_of(asked, most)
    ends = [place + len(a.wanted) for place, a in zip(plan.places, asked, strict=True)]
    for place, before in zip(plan.places, [0, *ends], strict=False):
        assert place % plan.width == 0
        assert before <= place < before + plan.width
    assert ends[-1] <= plan.chunks * plan.width


@given(requests(), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_answers_come_back_to_their_rows_and_actions(asked: list[Asked], k: int, seed: int) -> None:
    plan = plan_of(asked, 8)
    rng = np.random.default_rng(seed)
    answers: dict[tuple[int, int], tuple[list[int], list[float], bool]] = {}
    found = np.zeros((len(plan.pairs), 2 * k + 3))
    expected = all_pairs(asked)
    for pair, (_, _, row, action) in enumerate(plan.pairs.tolist()):
        there = min(k + 1, expected[row, action][2])
        shown = there - int(rng.integers(0, 2))  # one may be hidden, since its distance is infinite in float32
        far, slots = np.sort(rng.random(k + 1)), rng.permutation(10_000)[: k + 1]
        far[shown:] = np.inf
        doubt = rng.random() < 0.3
        found[pair] = np.concatenate([far, slots, [doubt]])
        answers[row, action] = (
            [*slots[:shown].tolist(), *[-1] * (k + 1 - shown)], far.tolist(), bool(doubt or shown < there),
        )  # fmt: skip
    slots, squared, unsure = plan.spread(found, k)
    rows, n_actions = sum(len(a.wanted) for a in asked), max(a.wanted.shape[1] for a in asked)
    assert slots.shape == squared.shape == (rows, n_actions, k + 1)
    nothing = ([-1] * (k + 1), [np.inf] * (k + 1), False)
    for row in range(rows):
        for action in range(n_actions):
            answer = slots[row, action].tolist(), squared[row, action].tolist(), bool(unsure[row, action])
            assert answer == answers.get((row, action), nothing)


def test_nothing_wanted_is_no_work() -> None:
    plan = Plan([np.zeros((3, 2), np.bool_)], [np.array([5, 5])], [(1000, 8)], 32)
    assert (len(plan.jobs), len(plan.pairs), plan.largest) == (0, 0, 0)
    slots, squared, unsure = plan.spread(np.zeros((0, 5)), 1)
    assert (slots == -1).all()
    assert np.isinf(squared).all()
    assert not unsure.any()


def test_no_rows_are_no_work() -> None:
    plan = Plan([np.zeros((0, 2), np.bool_)], [np.array([5, 5])], [(1000, 8)], 32)
    assert (len(plan.jobs), len(plan.pairs)) == (0, 0)
    slots, _, unsure = plan.spread(np.zeros((0, 5)), 1)
    assert slots.shape == (0, 2, 2)
    assert unsure.shape == (0, 2)
