"""Merged look-ups against a full sort of float64 distances: in plain torch, by the kernels, and on a GPU if any.

The kernels run on any machine in Triton's interpreter. It must be switched on before Triton is imported, so that
the tests of this file are run once more, in a process of their own: those of every kind, but not every case.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mfec.device import Response
from mfec.device.engine import MOST_QUERIES, Engine, Request
from mfec.device.local import LocalChannel
from mfec.embeddings import RandomProjection
from mfec.memory.neighbours.cuda import CudaIndex

from ..interpreter import INTERPRETED, run_in_interpreter

Array = NDArray[np.float32]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() and not INTERPRETED else [])]
MANY = 17  # queries of one run, enough to be multiplied instead of subtracted

in_torch = pytest.mark.skipif(INTERPRETED, reason="slow in the interpreter, where other cases are of its kind")

# In the interpreter numpy speaks of numbers that overflow: those of some tests, and what stands where no entry does.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning") if INTERPRETED else []


@pytest.fixture(params=DEVICES)
def engine(request: pytest.FixtureRequest) -> Engine:
    engine = Engine(request.param)
    assert engine.triton is (INTERPRETED or request.param == "cuda")
    return engine


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter runs programs one after the other, also those for pages that are not there."""
    if INTERPRETED:
        monkeypatch.setattr("mfec.device.launches.FEWEST_PAGES", 1)


@pytest.mark.slow(reason="Triton's interpreter runs every program of a kernel in Python")
@pytest.mark.skipif(INTERPRETED, reason="it is on")
def test_all_of_this_holds_for_the_kernels_in_the_interpreter() -> None:
    run_in_interpreter(__file__)


# -- The reference ----------------------------------------------------------------------------------------------------


class Stored:
    """States of one run on an engine, with entry ids that do not follow the slots."""

    def __init__(self, engine: Engine, *buffers: Array) -> None:
        self.buffers = [np.asarray(states, np.float32) for states in buffers]
        capacity, dim = max(1, *map(len, self.buffers)), self.buffers[0].shape[1]
        shape = (len(buffers), capacity, dim)
        self.entry_ids = np.random.default_rng(7).permutation(len(buffers) * capacity).reshape(shape[:2])
        self.channel = Heard(engine)
        self.index = CudaIndex(shape, self.entry_ids, device=self.channel)
        for action, states in enumerate(self.buffers):
            self.channel.store(np.full(len(states), action), np.arange(len(states)), states)

    def everything(self, queries: Array) -> NDArray[np.bool_]:
        return np.ones((len(queries), len(self.buffers)), np.bool_)

    def request(self, queries: Array, k: int, wanted: NDArray[np.bool_] | None = None) -> Request:
        wanted = self.everything(queries) if wanted is None else wanted
        return Request(self.channel.run, np.asarray(queries, np.float32), wanted, k)

    def check(
        self, queries: Array, k: int, wanted: NDArray[np.bool_] | None = None, found: Response | None = None
    ) -> Response:
        """The index, with what was found alone or in company, equals the full sort in every slot and every bit."""
        queries = np.asarray(queries, np.float32)
        wanted = self.everything(queries) if wanted is None else wanted
        self.channel.answer = found
        nearest = self.index.search(queries, wanted, k)
        slots, squared = nearest.slots, nearest.squared
        answer = self.channel.last
        assert answer.states.tobytes() == queries.tobytes()
        assert slots.shape == squared.shape == (*wanted.shape, k)
        for row, query in enumerate(queries):
            for action, states in enumerate(self.buffers):
                true = squared_distances(states, query)
                order = np.lexsort((self.entry_ids[action, : len(states)], true))[:k]
                order = order[: k if wanted[row, action] else 0]
                there = len(order)
                assert slots[row, action, :there].tolist() == order.tolist()
                assert squared[row, action, :there].tolist() == true[order].tolist()
                assert (slots[row, action, there:] == -1).all()
                assert np.isinf(squared[row, action, there:]).all()
                if not answer.unsure[row, action]:  # then the device's own answer has these distances already
                    assert answer.squared[row, action, :there].tolist() == true[order].tolist()
                    own = answer.slots[row, action][answer.slots[row, action] >= 0]
                    assert len(own) == len(set(own.tolist()))
                    assert answer.squared[row, action, : len(own)].tolist() == true[own].tolist()
        return answer


class Heard(LocalChannel):
    """A channel whose last answer can be looked at, or given beforehand."""

    answer: Response | None = None
    last: Response

    def look_up(self, inputs: NDArray[Any], wanted: NDArray[np.bool_], k: int) -> Response:
        self.last = self.answer or super().look_up(inputs, wanted, k)
        return deepcopy(self.last)


def squared_distances(states: Array, query: Array) -> NDArray[np.float64]:
    """In float64, term after term: equal to the last bit, not nearly."""
    total = np.zeros(len(states))
    for j in range(len(query)):
        step = states[:, j].astype(np.float64) - float(query[j])
        total += step * step
    return total


def gaussian(rng: np.random.Generator, n: int, dim: int) -> Array:
    return rng.standard_normal((n, dim)).astype(np.float32)


# -- One run ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "k", "n"), [(64, 11, 1), (5, 1, MANY), pytest.param(64, 11, MANY, marks=in_torch)])
def test_the_nearest_entries_of_buffers_of_any_size_are_found(engine: Engine, dim: int, k: int, n: int) -> None:
    rng = np.random.default_rng(dim + n)
    sizes = (0, 1, 33, 300 if INTERPRETED or n == MANY else 4097)
    stored = Stored(engine, *[gaussian(rng, size, dim) for size in sizes])
    queries = gaussian(rng, n, dim)
    queries[0] = stored.buffers[-1][-1]  # a state that is there
    wanted = rng.random((n, len(sizes))) < (0.4 if n == MANY else 1.0)
    found = stored.check(queries, k, wanted)
    assert not found.unsure.any(), "there is no doubt about distances as different as these"
    assert np.isfinite(found.squared).sum(2).tolist() == (wanted * [min(size, k + 1) for size in sizes]).tolist()


def test_no_queries_and_no_wanted_buffers_find_nothing(engine: Engine) -> None:
    rng = np.random.default_rng(0)
    stored = Stored(engine, gaussian(rng, 40, 4))
    found = stored.check(np.zeros((0, 4), np.float32), 3)
    assert found.slots.shape == (0, 1, 4)
    stored.check(gaussian(rng, 3, 4), 3, np.zeros((3, 1), np.bool_))


@in_torch
def test_more_queries_than_share_a_pass(engine: Engine) -> None:
    rng = np.random.default_rng(1)
    stored = Stored(engine, gaussian(rng, 200, 16), gaussian(rng, 90, 16))
    queries = gaussian(rng, MOST_QUERIES + 8, 16)
    stored.check(queries, 3, rng.random((len(queries), 2)) < 0.3)


def test_replaced_states_are_gone_and_new_ones_found(engine: Engine) -> None:
    rng = np.random.default_rng(2)
    stored = Stored(engine, gaussian(rng, 300, 5))
    slots = rng.permutation(300)[:100]
    stored.buffers[0][slots] = gaussian(rng, 100, 5) + 1
    stored.channel.store(np.zeros(100, np.int64), slots, stored.buffers[0][slots])
    stored.check(np.concatenate([stored.buffers[0][slots[:3]], gaussian(rng, 3, 5)]), 3)


def test_distances_of_all_entries_have_the_bits_of_a_sum_in_order(engine: Engine) -> None:
    rng = np.random.default_rng(3)
    for dim in (1, 5, 64):
        states = gaussian(rng, 4200, dim) * np.float32(3000)
        stored = Stored(engine, states[:10], states)
        query = gaussian(rng, 1, dim)[0]
        for action in range(2):
            squared = stored.channel.distances(query, action)
            assert squared.tolist() == squared_distances(stored.buffers[action], query).tolist()


# -- Hard to tell apart -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spread", "n"), [(1e-5, 1), pytest.param(4e-3, MOST_QUERIES, marks=in_torch)])
def test_small_differences_of_large_numbers_are_ranked_rightly(engine: Engine, spread: float, n: int) -> None:
    """A norm of 40,000, as projected screens have it, and neighbours that are nearly the same state."""
    rng = np.random.default_rng(4)
    centre = rng.standard_normal(16)
    centre *= 4e4 / np.linalg.norm(centre)
    copies = centre + rng.standard_normal((3000, 16)) * rng.random((3000, 1)) * spread
    stored = Stored(engine, rng.permutation(np.concatenate([copies, rng.normal(0, 1e4, (300, 16))])))
    stored.check(centre + rng.standard_normal((n, 16)) * spread, 3, np.arange(n)[:, None] < 8)


@in_torch
@pytest.mark.parametrize("spread", [0.05, 12.0])
def test_queries_far_from_each_other_do_not_blur_each_other(engine: Engine, spread: float) -> None:
    """Queries that share a pass lie in two places 80,000 apart, each with entries of its own."""
    rng = np.random.default_rng(5)
    places = np.stack([np.full(16, 1e4), np.full(16, -1e4)])[np.arange(3000) % 2]
    states = places + rng.standard_normal((3000, 16)) * spread
    stored = Stored(engine, states)
    stored.check(states[:MANY] + rng.standard_normal((MANY, 16)) * spread, 3)


@pytest.mark.parametrize("n", [3, pytest.param(MANY, marks=in_torch)])
def test_places_of_a_pass_that_are_left_over_raise_no_doubts(engine: Engine, n: int) -> None:
    """A doubt costs a pass over the whole buffer. States are 120 apart here, far from zero, and easy to tell apart."""
    rng = np.random.default_rng(22)
    centre = rng.standard_normal(16)
    centre *= 4e4 / np.linalg.norm(centre)
    stored = Stored(engine, centre + rng.normal(0, 30, (3000, 16)))
    wanted = np.arange(n)[:, None] < 8
    found = stored.check(centre + rng.normal(0, 30, (n, 16)), 3, wanted)
    assert found.unsure[wanted].sum() <= 1


@pytest.mark.parametrize("n", [1, pytest.param(MANY, marks=in_torch)])
def test_equal_distances_are_doubted_and_the_oldest_entries_count(engine: Engine, n: int) -> None:
    rng = np.random.default_rng(6)
    same = np.repeat(gaussian(rng, 1, 16) * 100, 500, axis=0)
    stored = Stored(engine, same, same[:3])
    found = stored.check(gaussian(rng, n, 16), 3)
    assert found.unsure[:, 0].all()


@pytest.mark.parametrize("n", [1, pytest.param(MANY, marks=in_torch)])
def test_whole_numbers_with_ties_everywhere_are_ranked_by_age(engine: Engine, n: int) -> None:
    rng = np.random.default_rng(7)
    stored = Stored(engine, rng.integers(0, 3, (600, 16)))
    stored.check(rng.integers(0, 3, (n, 16)), 3)


def test_distances_that_differ_by_the_order_of_their_sum_alone(engine: Engine) -> None:
    """The same steps in another order: sums in float64 differ in the last bit or not, and age decides if not."""
    rng = np.random.default_rng(8)
    steps = (10.0 ** rng.uniform(-3, 4, 64)).astype(np.float32)
    stored = Stored(engine, np.stack([rng.permutation(steps) for _ in range(60)]))
    stored.check(np.zeros((1, 64)), 11)


# -- Too large and too small for float32 ------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "n"), [(1e38, 1), (1e-25, 1), pytest.param(1e38, MANY, marks=in_torch)])
def test_numbers_whose_squares_overflow_or_vanish_are_ranked_rightly(engine: Engine, scale: float, n: int) -> None:
    rng = np.random.default_rng(9)
    numbers = np.clip(rng.standard_normal((400 + n, 16)), -3, 3) * scale
    Stored(engine, numbers[:400]).check(numbers[400:], 3)


@pytest.mark.parametrize(("size", "n"), [(640, 1), pytest.param(96, MANY, marks=in_torch)])
def test_one_near_entry_does_not_hide_what_is_infinitely_far_in_float32(engine: Engine, size: int, n: int) -> None:
    """It stands among the farthest; the second and the third nearest stand where every square overflows."""
    rng = np.random.default_rng(10)
    states = np.zeros((size, 16))
    states[:, 0] = 1e25 * (1 + rng.random(size))
    states[:32, 0] = 1e30 * (1 + rng.random(32))
    states[5, 0] = 1.0
    Stored(engine, states).check(np.zeros((n, 16)), 3)


def test_products_that_overflow_do_not_bring_far_entries_near(engine: Engine) -> None:
    """|x|^2 - 2 x q is infinity less infinity for the far entries here, and they are none of the neighbours."""
    rng = np.random.default_rng(11)
    states = np.zeros((640, 16))
    states[:, 0] = 1e19
    states[:, 1] = 5e18 + rng.random(640) * 1e18
    states[:320:32, 1] = 1e17 * np.arange(1, 11)
    states[320:512] = 0.0
    states[320:512, 0] = 1e20
    queries = np.zeros((MANY, 16))
    queries[:, 0] = np.where(np.arange(MANY) < MANY // 2, 1e19, -1e19)
    Stored(engine, states).check(queries, 3)


@in_torch
def test_queries_whose_middle_overflows(engine: Engine) -> None:
    rng = np.random.default_rng(12)
    stored = Stored(engine, rng.uniform(-3e38, 3e38, (400, 16)))
    stored.check(3e38 * rng.choice([-1, 1], (MANY, 16)), 3)


# -- Many runs --------------------------------------------------------------------------------------------------------


def same_answer(one: Response, other: Response, k: int) -> None:
    """Bit for bit; what is in doubt in either is settled by the index."""
    assert one.states.tobytes() == other.states.tobytes()
    assert one.slots.shape == other.slots.shape
    sure = ~(one.unsure | other.unsure)
    assert one.slots[sure][:, :k].tobytes() == other.slots[sure][:, :k].tobytes()
    assert one.squared[sure][:, :k].tobytes() == other.squared[sure][:, :k].tobytes()


def test_merged_look_ups_equal_each_alone(engine: Engine) -> None:
    """Runs of different sizes, with different numbers of actions and of queries."""
    rng = np.random.default_rng(13)
    runs = [
        (Stored(engine, *[gaussian(rng, size, 16) for size in sizes]), gaussian(rng, n, 16))
        for sizes, n in [((100, 40), 3), ((0, 1, 33), 1), ((0, 0), 2)]
    ]
    masks = [rng.random((len(queries), len(stored.buffers))) < 0.6 for stored, queries in runs]
    asked = [stored.request(queries, 3, mask) for (stored, queries), mask in zip(runs, masks, strict=True)]
    for request, found, (stored, queries), mask in zip(asked, engine.look_up(asked), runs, masks, strict=True):
        if not INTERPRETED:
            same_answer(found, engine.look_up([request])[0], 3)
        stored.check(queries, 3, mask, found)


@in_torch
def test_runs_of_one_query_each(engine: Engine) -> None:
    rng = np.random.default_rng(14)
    runs = [Stored(engine, gaussian(rng, 100, 64), gaussian(rng, 50 * i, 64)) for i in range(3)]
    queries = gaussian(rng, 3, 64)
    asked = [stored.request(queries[i : i + 1], 11) for i, stored in enumerate(runs)]
    for i, found in enumerate(engine.look_up(asked)):
        same_answer(found, engine.look_up([asked[i]])[0], 11)
        runs[i].check(queries[i : i + 1], 11, found=found)


def test_runs_of_other_dimensions_and_neighbours_are_answered_in_the_order_asked(engine: Engine) -> None:
    rng = np.random.default_rng(15)
    shapes = [(5, 3), (16, 1), (5, 3), (16, 3), (5, 1)]
    runs = [(Stored(engine, gaussian(rng, 60, dim)), gaussian(rng, 2, dim), k) for dim, k in shapes]
    answers = engine.look_up([stored.request(queries, k) for stored, queries, k in runs])
    for (stored, queries, k), found in zip(runs, answers, strict=True):
        stored.check(queries, k, found=found)


@in_torch
def test_a_run_in_bad_company_is_ranked_rightly(engine: Engine) -> None:
    """Places of a pass that are left over are filled with a query of another run, which may be far off."""
    rng = np.random.default_rng(16)
    far = Stored(engine, gaussian(rng, 50, 16) * np.float32(1e6))
    near = Stored(engine, gaussian(rng, 700, 16))
    asked = gaussian(rng, 1, 16) * np.float32(1e6), gaussian(rng, MANY, 16)
    answers = engine.look_up([far.request(asked[0], 3), near.request(asked[1], 3)])
    far.check(asked[0], 3, found=answers[0])
    near.check(asked[1], 3, found=answers[1])


def test_what_was_asked_before_leaves_no_trace(engine: Engine) -> None:
    """Nor what it left in places of a pass that are empty this time."""
    rng = np.random.default_rng(21)
    stored = Stored(engine, gaussian(rng, 40, 16))
    queries, huge = gaussian(rng, MANY, 16), rng.choice([-3e38, 3e38], (32, 16)).astype(np.float32)
    some, last = np.arange(MANY)[:, None] < 5, np.arange(32)[:, None] == 31
    stored.check(huge, 3, last)
    stored.check(queries, 3, some)


# -- Bounds of the kernels --------------------------------------------------------------------------------------------


def test_what_needs_much_scratch_is_searched_in_several_goes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    if not engine.triton:
        pytest.skip("plain torch searches one buffer after the other")
    from mfec.device import launches

    rng = np.random.default_rng(17)
    runs = Stored(engine, gaussian(rng, 100, 16), gaussian(rng, 40, 16)), Stored(engine, gaussian(rng, 10, 16))
    monkeypatch.setattr(launches, "SCRATCH_BYTES", 1)
    asked = [run.request(gaussian(rng, 2, 16), 3) for run in runs]
    for run, request, found in zip(runs, asked, engine.look_up(asked), strict=True):
        assert not found.unsure.any()
        run.check(request.inputs, 3, found=found)


def test_large_buffers_have_larger_blocks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As buffers of millions of entries have them."""
    if not engine.triton:
        pytest.skip("plain torch knows no blocks")
    from mfec.device import kernels

    monkeypatch.setattr(kernels, "MOST_BLOCKS", 32)
    rng = np.random.default_rng(18)
    stored = Stored(engine, gaussian(rng, 4097, 16), gaussian(rng, 70, 16))
    stored.check(gaussian(rng, 1, 16), 3)


@pytest.mark.parametrize("n", [1, MANY])
def test_of_many_minima_each_part_is_thinned_first(engine: Engine, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """As buffers of more than 32,768 entries have them."""
    if not engine.triton:
        pytest.skip("plain torch knows no blocks")
    from mfec.device import kernels

    monkeypatch.setattr(kernels, "THIN", 32)
    rng = np.random.default_rng(18)
    stored = Stored(engine, gaussian(rng, 4097, 16), gaussian(rng, 70, 16), gaussian(rng, 3, 16))
    stored.check(gaussian(rng, n, 16), 3)


def test_a_few_states_wait_for_what_reads_them(engine: Engine) -> None:
    rng = np.random.default_rng(21)
    channel = LocalChannel(engine)
    channel.open(2, 100, 3)
    states = gaussian(rng, 4, 3)
    for state in states:  # the later stays
        channel.store(np.array([1]), np.array([0]), state[None])
    found = channel.look_up(states[:1], np.ones((1, 2), np.bool_), 1)
    assert found.squared[0, 1, 0] == pytest.approx(((states[0] - states[3]).astype(np.float64) ** 2).sum())
    channel.store(np.array([0, 1]), np.array([0, 1]), states[:2])
    assert np.array_equal(channel.rows(np.array([1, 0, 1]), np.array([1, 0, 0])), states[[1, 0, 3]])
    channel.store(np.array([0]), np.array([0]), states[2:3])
    assert channel.distances(states[2], 0).tolist() == [0.0]
    channel.store(np.array([0]), np.array([1]), states[1:2])
    many = np.arange(50)
    channel.store(np.zeros(50, np.int64), many, gaussian(rng, 50, 3))  # more than can wait, after those that do
    channel.store(np.array([0]), np.array([49]), states[1:2])
    assert channel.look_up(states[1:2], np.ones((1, 2), np.bool_), 1).slots[0, 0, 0] == 49


# -- Projection -------------------------------------------------------------------------------------------------------


def test_each_run_is_projected_by_its_own_weights_to_the_bits_of_the_cpu(engine: Engine) -> None:
    rng = np.random.default_rng(19)
    for size, dim in ((113, 5),) if INTERPRETED else ((240, 64), (113, 5), (16, 3)):
        projections = [RandomProjection(size, dim, seed=seed) for seed in range(2)]
        seen = [rng.integers(0, 256, (n, size), np.uint8) for n in (1, 2)]
        seen[1][:] = [[0], [255]]
        asked = []
        for projection, observations in zip(projections, seen, strict=True):
            stored = Stored(engine, projection(observations), gaussian(rng, 40, dim))
            stored.channel.project_with(projection.weights)
            asked.append(Request(stored.channel.run, observations, np.ones((len(observations), 2), np.bool_), 1))
        for request, found, projection in zip(asked, engine.look_up(asked), projections, strict=True):
            assert found.states.tobytes() == projection(request.inputs).tobytes()
            assert (found.squared[:, 0, 0] == 0.0).all(), "each finds itself"


def test_observations_without_a_projection_are_an_error_that_says_so(engine: Engine) -> None:
    stored = Stored(engine, gaussian(np.random.default_rng(20), 10, 4))
    seen, wanted = np.zeros((1, 7), np.uint8), np.ones((1, 1), np.bool_)
    with pytest.raises(ValueError, match=r"^there is no projection for observations of 7 numbers$"):
        engine.look_up([Request(stored.channel.run, seen, wanted, 1)])
    stored.channel.project_with(RandomProjection(8, 4, seed=0).weights)
    with pytest.raises(ValueError, match=r"^there is no projection for observations of 7 numbers$"):
        engine.look_up([Request(stored.channel.run, seen, wanted, 1)])
