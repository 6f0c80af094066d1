"""The episodic memory against a reference of plain dictionaries and full sorts, written from the paper."""

from __future__ import annotations

import math
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfec.checkpoint import CheckpointError, write_checkpoint
from mfec.embeddings import RandomProjection
from mfec.memory import EpisodicMemory, eviction

from .reference import ACTIVE, INDEXES, N_ACTIONS, Pair, early_change, every_index, operations, options  # noqa: F401

# -- Long random sequences --------------------------------------------------------------------------------------------


@every_index
@given(options, st.sampled_from([1, 2, 4096]), st.lists(operations(), min_size=1, max_size=40))
@settings(max_examples=25)
def test_any_sequence_of_reads_and_writes_equals_the_reference(
    index: str, options: dict[str, Any], queue_length: int, sequence: list[tuple[Any, ...]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eviction, "QUEUE_LENGTH", queue_length)  # so that queues shorter than a buffer are met too
        pair = Pair(N_ACTIONS, 2, index=index, **options)
    for name, *arguments in sequence:
        getattr(pair, name)(*arguments)
        pair.compare_neighbours((1.0, 2.0))
    pair.compare_entries()


@every_index
@pytest.mark.parametrize(
    ("eviction_rule", "few_neighbours", "update", "kernel"),
    [
        ("updated", "infinity", "max", "mean"),
        ("used", "mean", "replace", "inverse"),
        ("used", "mean", "step", "inverse"),
    ],
)
def test_many_reads_and_writes_equal_the_reference(
    index: str, eviction_rule: str, few_neighbours: str, update: str, kernel: str
) -> None:
    """More than hypothesis makes, with three numbers in a state and mixed identities."""
    rng = random.Random(0)
    pair = Pair(
        3, 3, capacity=15, k=4, index=index,
        eviction=eviction_rule, update=update, few_neighbours=few_neighbours, kernel=kernel,
    )  # fmt: skip
    for turn in range(200):
        n = rng.randint(1, 4)
        states = [tuple(float(rng.randint(-2, 2)) for _ in range(3)) for _ in range(n)]
        given_as = rng.choice(["state", "state", "int", "bytes"])
        labels: Any = None if given_as == "state" else [rng.randint(-20, 20) for _ in range(n)]
        if given_as == "bytes":
            labels = [str(label).encode() for label in labels]
        if rng.random() < 0.6:
            returns = [rng.gauss(0, 100) for _ in range(n)]
            pair.write(states, [rng.randrange(3) for _ in range(n)], returns, labels)
        else:
            pair.estimate(states, labels, mark_used=rng.random() < 0.8)
        if turn % 50 == 0:
            pair.compare_neighbours(states[0])
            pair.compare_entries()
    pair.compare_entries()
    assert pair.memory.active_index == ACTIVE[index]


@every_index
def test_one_long_write_equals_its_rows_one_by_one(index: str) -> None:
    """Except for when cells are made, which goes by the entries of a write; here they do not decide what is found."""
    rng = np.random.default_rng(0)
    states, actions, returns = rng.integers(0, 6, (150, 2)), rng.integers(0, 2, 150), rng.standard_normal(150)
    whole = EpisodicMemory(2, 2, capacity=7, k=3, index=index, eviction="used")
    whole.write(states, actions, returns)
    rows = EpisodicMemory(2, 2, capacity=7, k=3, index=index, eviction="used")
    for row in range(150):
        rows.write(states[row : row + 1], actions[row : row + 1], returns[row : row + 1])
    if index == "exact":
        assert_same(whole, rows)
    assert_same_tensors(entries_of(whole), entries_of(rows))
    queries = rng.integers(0, 9, (50, 2))
    ours, theirs = whole.estimate(queries), rows.estimate(queries)
    assert ours.values.tolist() == theirs.values.tolist()
    assert ours.exact.tolist() == theirs.exact.tolist()


def entries_of(memory: EpisodicMemory) -> dict[str, Any]:
    """The tensors that do not depend on the index."""
    return {name: tensor for name, tensor in memory.tensors().items() if not name.startswith("index.")}


# -- Defects of the peers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("norm", "nearest", "step"), [(40.0, 3e-6, 1e-5), (40_000.0, 2e-3, 1e-2)])
def test_distances_far_below_the_norm_are_ranked_rightly(norm: float, nearest: float, step: float) -> None:
    rng = np.random.default_rng(1)
    centre = rng.standard_normal(64)
    centre = (centre * norm / np.linalg.norm(centre)).astype(np.float32)
    directions = rng.standard_normal((200, 64))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radii = nearest + step * rng.permutation(200)
    states = (centre + directions * radii[:, None]).astype(np.float32)
    memory = EpisodicMemory(1, 64, capacity=1000, k=11, index="exact")
    memory.write(np.concatenate([states, rng.normal(0, norm, (500, 64))]), [0] * 700, np.arange(700.0))

    steps = [[float(x) - float(y) for x, y in zip(state, centre, strict=True)] for state in states]
    true = [math.sqrt(math.fsum(x * x for x in row)) for row in steps]
    order = sorted(range(200), key=lambda row: true[row])[:11]
    found = memory.neighbours(centre, 0)
    assert found.entry_ids.tolist() == order
    np.testing.assert_allclose(found.distances, [true[row] for row in order], rtol=1e-12)
    assert memory.estimate(centre[None]).values[0, 0] == np.float32(sum(order) / 11)


def test_matches_survive_another_batch_size() -> None:
    """States written from a batch of 16 are found one by one, and the other way around."""
    frames = np.random.default_rng(2).integers(0, 256, (16, 84, 84), np.uint8)
    together = RandomProjection(84 * 84, 64, seed=0)(frames)
    single = RandomProjection(84 * 84, 64, seed=0)
    one_by_one = np.concatenate([single(frame[None]) for frame in frames])
    memory = EpisodicMemory(2, 64, capacity=100, k=1)
    memory.write(together, [0] * 16, np.arange(16.0))
    for row in range(16):
        memory.write(one_by_one[row : row + 1], [1], [float(row)])
        assert memory.estimate(one_by_one[row : row + 1]).exact.tolist() == [[True, True]]
    estimates = memory.estimate(together)
    assert estimates.exact.all()
    assert estimates.values[:, 0].tolist() == estimates.values[:, 1].tolist() == list(range(16))


# -- Single rules -----------------------------------------------------------------------------------------------------


@every_index
def test_what_is_returned_is_a_copy(index: str) -> None:
    memory = EpisodicMemory(1, 1, capacity=9, k=2, index=index)
    memory.write([[0.0], [1.0], [7.0], [8.0], [9.0]], [0] * 5, [1.0, 2.0, 0.0, 0.0, 0.0])
    memory.estimate([[0.4]])
    memory.sizes[:] = 0
    found, tensors = memory.neighbours([0.0], 0), memory.tensors()
    before = {name: tensor.copy() for name, tensor in tensors.items()}
    for array in (found.states, found.values, *tensors.values()):
        array[:] = 0
    assert len(memory) == 5
    assert memory.estimate([[0.4]], mark_used=False).values.tolist() == [[1.5]]
    assert_same_tensors(memory.tensors(), before)


@every_index
def test_an_empty_batch_changes_nothing(index: str) -> None:
    memory = EpisodicMemory(2, 3, capacity=3, index=index, eviction="used")
    memory.write(np.zeros((0, 3)), [], [])
    assert memory.estimate(np.zeros((0, 3))).values.shape == (0, 2)
    assert memory.settings()["tick"] == 0
    assert len(memory) == 0


@every_index
def test_bytes_are_counted(index: str) -> None:
    """The bytes of the index that searches now, with those of the entries."""
    memory = EpisodicMemory(3, 64, capacity=50, index=index)
    empty = memory.nbytes
    memory.estimate(np.zeros((1, 64)))
    memory.write(np.arange(3 * 50 * 64).reshape(150, 64), [0, 1, 2] * 50, np.zeros(150))
    active = ACTIVE[index]
    assert memory.active_index == active
    assert memory.nbytes == EpisodicMemory.bytes_when_full(3, 64, 50, active)
    assert memory.nbytes - empty == 150 * EpisodicMemory.bytes_per_entry(64, active)
    # What is kept for each entry, that is without 64 recent queries and the centres of cells.
    each = [array.nbytes for array in memory.tensors().values() if len(array) == 150]
    assert len(each) == (8 if active == "cells" else 7)
    assert EpisodicMemory.bytes_per_entry(64, active) >= sum(each) / 150


def test_bytes_before_a_memory_is_made_allow_for_both_kinds_of_index() -> None:
    """While `auto` tries cells, both are there."""
    exact, cells, both, cuda = (EpisodicMemory.bytes_per_entry(64, index) for index in INDEXES)
    assert EpisodicMemory.bytes_per_entry(64) == exact
    bare = 4 * 64 + 4 + 8 + 8 + 16 + 8 + 4 + 2
    assert both - bare == (exact - bare) + (cells - bare)
    assert bare == cuda < min(cells, exact)
    for index in INDEXES:
        full = EpisodicMemory.bytes_when_full(3, 64, 50, index)
        assert full - EpisodicMemory.bytes_when_full(3, 64, 50) == 150 * (
            EpisodicMemory.bytes_per_entry(64, index) - exact
        )


# -- The index --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "name", "active"), [
    ("exact", "exact", "exact"), ("cells", "cells", "cells"), ("auto", "auto", "exact"),
])  # fmt: skip
def test_the_index_is_named(given: str, name: str, active: str) -> None:
    memory = EpisodicMemory(1, 1, capacity=3, index=given)
    assert (memory.index, memory.active_index) == (name, active)
    assert memory.settings()["index"] == name


def test_auto_is_the_default_and_tells_when_it_has_changed() -> None:
    memory = EpisodicMemory(2, 1, capacity=9, k=1)
    memory.estimate([[0.0]])
    for number in range(6):
        assert (memory.index, memory.active_index) == ("auto", "exact" if number < 5 else "cells")
        memory.write([[float(number)]], [number % 2], [0.0])


def test_an_unknown_index_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"^index must be one of exact, cells, cuda, none, auto, not 'tree'$"):
        EpisodicMemory(1, 1, index="tree")
    with pytest.raises(ValueError, match="unknown index 'tree'"):
        EpisodicMemory.bytes_per_entry(64, "tree")


@pytest.mark.parametrize("recall", [0.0, -0.5, 1.1, math.nan, math.inf])
def test_the_wanted_recall_is_a_share(recall: float) -> None:
    with pytest.raises(ValueError, match="recall must lie above 0 and not above 1, not"):
        EpisodicMemory(1, 1, recall=recall)
    assert EpisodicMemory(1, 1, capacity=1, recall=1).settings()["recall"] == 1.0


@every_index
def test_recall_is_measured_where_a_search_may_miss_something(index: str) -> None:
    memory = EpisodicMemory(2, 2, capacity=30, k=3, index=index)
    rng = np.random.default_rng(0)
    assert memory.measured_recall is None
    for _ in range(3):
        memory.estimate(rng.standard_normal((4, 2)))
        memory.write(rng.standard_normal((20, 2)), rng.integers(0, 2, 20), np.zeros(20))
    assert memory.measured_recall == (1.0 if ACTIVE[index] == "cells" else None)


def test_matched_states_are_not_checked() -> None:
    memory = EpisodicMemory(1, 1, capacity=30, k=3, index="cells")
    memory.write([[0.0], [1.0]], [0, 0], [0.0, 0.0])
    memory.estimate([[0.0], [1.0]])
    memory.write([[2.0]], [0], [0.0])
    assert memory.measured_recall is None


@pytest.mark.parametrize("index", ["cells", "auto"])
def test_an_estimate_that_is_not_marked_leaves_no_trace(index: str) -> None:
    """Neither on the entries nor on the cells that are made next."""
    rng = np.random.default_rng(1)
    watched, other = (EpisodicMemory(2, 4, capacity=1500, k=11, index=index, eviction="used") for _ in range(2))
    for _ in range(6):
        states, actions = rng.standard_normal((500, 4)), rng.integers(0, 2, 500)
        for memory in (watched, other):
            memory.write(states, actions, np.zeros(500))
        watched.estimate(rng.standard_normal((40, 4)) * 3, mark_used=False)
        watched.neighbours(rng.standard_normal(4), 1)
    assert_same(watched, other)


@pytest.mark.parametrize(("few", "few_neighbours"), [(1, "mean"), (40, "infinity")])
def test_a_rare_action_with_entries_is_not_taken_for_an_untried_one(few: int, few_neighbours: str) -> None:
    """One with a single entry under `mean`, or with more than k under `infinity`, has a value (Eq. 2)."""
    rng = np.random.default_rng(2)
    rooms = rng.normal(0, 3000, (100, 64))
    actions = np.concatenate([np.arange(4).repeat(1200), [4] * few])
    states = rooms[rng.integers(0, 100, len(actions))] + rng.normal(0, 300, (len(actions), 64))
    queries = rooms[rng.integers(0, 100, 64)] + rng.normal(0, 300, (64, 64))
    memory = EpisodicMemory(5, 64, capacity=1200, k=11, index="cells", few_neighbours=few_neighbours)
    memory.estimate(rooms[rng.integers(0, 100, 1024)] + rng.normal(0, 300, (1024, 64)))
    memory.write(states, actions, np.ones(len(actions)))
    values = memory.estimate(queries).values
    assert (values == 1.0).all()


# -- Bad input --------------------------------------------------------------------------------------------------------


def small_memory(index: str = "auto") -> EpisodicMemory:
    memory = EpisodicMemory(3, 2, capacity=4, k=1, index=index)
    memory.write([[0.0, 0.0], [1.0, 1.0]], [0, 1], [1.0, 2.0])
    return memory


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e39])
def test_states_that_are_not_finite_are_refused(bad: float) -> None:
    memory = small_memory()
    before = memory.tensors()
    with pytest.raises(ValueError, match="states must be finite"):
        memory.estimate([[0.0, 0.0], [0.0, bad]])
    with pytest.raises(ValueError, match="states must be finite"):
        memory.write([[0.0, 0.0], [0.0, bad]], [0, 0], [1.0, 1.0])
    with pytest.raises(ValueError, match="states must be finite"):
        memory.neighbours([0.0, bad], 0)
    assert_same_tensors(memory.tensors(), before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e39, -1e39])
def test_returns_that_are_not_finite_float32_numbers_are_refused(bad: float) -> None:
    memory = small_memory()
    before = memory.tensors()
    with pytest.raises(ValueError, match="returns must be finite float32 numbers"):
        memory.write([[2.0, 2.0], [3.0, 3.0]], [0, 0], [9.0, bad])
    with pytest.raises(ValueError, match="returns must be finite float32 numbers"):
        memory.write([[2.0, 2.0], [3.0, 3.0]], [0, 0], np.array([9.0, bad]))
    assert_same_tensors(memory.tensors(), before)


@pytest.mark.parametrize("shape", [(2,), (1, 3), (1, 1), (1, 2, 1)])
def test_states_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    memory = small_memory()
    with pytest.raises(ValueError, match=r"shape \(n, 2\), not") as error:
        memory.estimate(np.zeros(shape))
    assert str(shape) in str(error.value)
    with pytest.raises(ValueError, match=r"shape \(n, 2\), not"):
        memory.write(np.zeros(shape), [0], [0.0])
    with pytest.raises(ValueError, match="shape"):
        memory.neighbours(np.zeros((1, *shape)), 0)
    assert memory.sizes.tolist() == [1, 1, 0]


@pytest.mark.parametrize(("identities", "wrong"), [([1], 1), ([1, 2, 3], 3), ([], 0), ([b"a"], 1)])
def test_the_number_of_identities_must_fit(identities: list[Any], wrong: int) -> None:
    memory = small_memory()
    with pytest.raises(ValueError, match=f"2 states need as many identities, not {wrong}"):
        memory.estimate(np.zeros((2, 2)), identities)
    with pytest.raises(ValueError, match=f"2 states need as many identities, not {wrong}"):
        memory.write(np.zeros((2, 2)), [0, 0], [0.0, 0.0], identities)
    assert memory.sizes.tolist() == [1, 1, 0]


@pytest.mark.parametrize(("identity", "kind"), [("text", "str"), (1.5, "float"), (None, "NoneType")])
def test_an_identity_is_bytes_or_an_integer(identity: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"bytes or an integer, not {kind}"):
        small_memory().estimate(np.zeros((1, 2)), [identity])


@pytest.mark.parametrize("width", [1, 3])
def test_keys_of_another_width_are_refused_and_leave_the_memory_whole(width: int) -> None:
    memory = small_memory()
    before = memory.tensors()
    with pytest.raises((ValueError, TypeError)):
        memory.write([[5.0, 5.0]], [0], [1.0], np.ones((1, width), np.uint64))
    assert_same_tensors(memory.tensors(), before)


@pytest.mark.parametrize("action", [-1, 3, 2**40])
def test_actions_out_of_range_are_refused(action: int) -> None:
    memory = small_memory()
    before = memory.tensors()
    with pytest.raises(ValueError, match=rf"actions must lie in 0\.\.2\b.*{action}"):
        memory.write([[2.0, 2.0], [3.0, 3.0]], [0, action], [1.0, 1.0])
    with pytest.raises(ValueError, match=rf"action must lie in 0\.\.2, not {action}"):
        memory.neighbours([0.0, 0.0], action)
    assert_same_tensors(memory.tensors(), before)


@pytest.mark.parametrize("actions", [[0.5, 1.0], np.array([0.0, 1.5]), np.array([0.0, math.nan])])
def test_actions_that_are_no_integers_are_refused(actions: Any) -> None:
    memory = small_memory()
    with pytest.raises((ValueError, TypeError)):
        memory.write([[2.0, 2.0], [3.0, 3.0]], actions, [1.0, 1.0])
    assert memory.sizes.tolist() == [1, 1, 0]


@pytest.mark.parametrize(("actions", "returns"), [
    ([0], [1.0, 1.0]), ([0, 0], [1.0]), ([[0, 0]], [1.0, 1.0]), ([0, 0], [[1.0], [1.0]]), (0, 1.0),
])  # fmt: skip
def test_each_state_needs_one_action_and_one_return(actions: Any, returns: Any) -> None:
    memory = small_memory()
    with pytest.raises(ValueError, match=r"(actions|returns) must be 2 numbers in a row"):
        memory.write([[2.0, 2.0], [3.0, 3.0]], actions, returns)
    assert memory.sizes.tolist() == [1, 1, 0]


@pytest.mark.parametrize("name", ["n_actions", "dim", "capacity", "k"])
@pytest.mark.parametrize("number", [0, -1, 1.5, "3", None])
def test_sizes_are_whole_numbers_of_at_least_1(name: str, number: Any) -> None:
    good: dict[str, Any] = {"n_actions": 1, "dim": 1, "capacity": 1, "k": 1}
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, not {number!r}"):
        EpisodicMemory(**{**good, name: number})


@pytest.mark.parametrize(("name", "allowed"), [
    ("eviction", "updated, used"), ("update", "max, replace"), ("few_neighbours", "infinity, mean, zero"),
    ("kernel", "mean, inverse"),
    ("index", "exact, cells, cuda, none, auto"),
])  # fmt: skip
def test_unknown_settings_are_refused_with_what_is_allowed(name: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=name) as error:
        EpisodicMemory(1, 1, **{name: "wrong"})
    assert allowed in str(error.value)
    assert "'wrong'" in str(error.value)


def test_a_capacity_beyond_the_identity_table_is_refused() -> None:
    with pytest.raises(ValueError, match=rf"below 2\*\*30 .* not {2**30}"):
        EpisodicMemory(1, 1, capacity=2**30)


# -- Saving and loading -----------------------------------------------------------------------------------------------


def assert_same_tensors(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype
        assert ours[name].shape == theirs[name].shape
        assert ours[name].tobytes() == theirs[name].tobytes()


def assert_same(ours: EpisodicMemory, theirs: EpisodicMemory) -> None:
    assert ours.settings() == theirs.settings()
    assert_same_tensors(ours.tensors(), theirs.tensors())


def play(memory: EpisodicMemory, rng: np.random.Generator, turns: int) -> list[Any]:
    """Random reads and writes; what was read."""
    read: list[Any] = []
    for _ in range(turns):
        n = int(rng.integers(1, 5))
        states = rng.integers(0, 5, (n, memory.dim)).astype(np.float32)
        labels = rng.integers(0, 30, n) if rng.random() < 0.3 else None
        if rng.random() < 0.6:
            memory.write(states, rng.integers(0, memory.n_actions, n), rng.standard_normal(n), labels)
        else:
            estimates = memory.estimate(states, labels)
            read.append((estimates.values.tolist(), estimates.exact.tolist()))
    return read


@every_index
@pytest.mark.parametrize(("eviction_rule", "kernel", "turns"), [("updated", "inverse", 0), ("used", "mean", 100)])
def test_a_loaded_memory_is_the_saved_one_and_goes_on_as_it_would(
    tmp_path: Path, index: str, eviction_rule: str, kernel: str, turns: int
) -> None:
    memory = EpisodicMemory(
        3, 3, capacity=13, k=4, kernel=kernel, index=index, eviction=eviction_rule, update="replace",
        few_neighbours="mean",
    )  # fmt: skip
    play(memory, np.random.default_rng(turns), turns)
    memory.save(tmp_path / "memory")
    loaded = EpisodicMemory.load(tmp_path / "memory")
    assert_same(loaded, memory)
    ours, theirs = (play(each, np.random.default_rng(99), 100) for each in (memory, loaded))
    assert ours == theirs
    assert_same(loaded, memory)


def test_a_checkpoint_from_before_there_were_kernels_has_the_mean(tmp_path: Path) -> None:
    memory = EpisodicMemory(1, 1, capacity=5, k=2)
    memory.write([[0.0], [1.0]], [0, 0], [1.0, 2.0])
    settings = memory.settings()
    del settings["kernel"]
    write_checkpoint(tmp_path, kind="memory", state=settings, tensors={"memory": memory.tensors()})
    loaded = EpisodicMemory.load(tmp_path)
    assert loaded.kernel == "mean"
    assert loaded.estimate([[0.1]]).values.tolist() == [[1.5]]


@pytest.mark.parametrize(("index", "eviction_rule"), [("cells", "updated"), ("auto", "used")])
def test_a_loaded_memory_of_many_cells_goes_on_bit_for_bit(tmp_path: Path, index: str, eviction_rule: str) -> None:
    """Full buffers, evictions in every write, and other cells in the end; the search misses some neighbours."""
    rng = np.random.default_rng(3)
    memory = EpisodicMemory(2, 8, capacity=1500, k=5, index=index, eviction=eviction_rule)

    def turn(each: EpisodicMemory, rng: np.random.Generator) -> list[Any]:
        estimates = each.estimate(rng.standard_normal((60, 8)))
        each.write(rng.standard_normal((180, 8)), rng.integers(0, 2, 180), rng.standard_normal(180))
        return [estimates.values.tobytes(), estimates.exact.tobytes(), each.settings()]

    for _ in range(20):
        turn(memory, rng)
    assert memory.active_index == "cells"
    assert memory.sizes.tolist() == [1500, 1500]
    memory.save(tmp_path)
    loaded = EpisodicMemory.load(tmp_path)
    assert_same(loaded, memory)
    cells = memory.tensors()["index.centres"]
    ours, theirs = np.random.default_rng(4), np.random.default_rng(4)
    for _ in range(20):
        read = turn(memory, ours)
        assert turn(loaded, theirs) == read
    assert not np.array_equal(memory.tensors()["index.centres"], cells)
    assert_same(loaded, memory)


@every_index
def test_saving_leaves_the_memory_as_it_was(tmp_path: Path, index: str) -> None:
    saved, other = (EpisodicMemory(2, 2, capacity=5, k=2, index=index, eviction="used") for _ in range(2))
    rngs = [np.random.default_rng(5), np.random.default_rng(5)]
    for _ in range(3):
        assert play(saved, rngs[0], 20) == play(other, rngs[1], 20)
        saved.save(tmp_path)
    assert_same(saved, other)


@every_index
def test_a_memory_from_another_index_is_tried_when_it_is_asked(tmp_path: Path, index: str) -> None:
    """By an agent that learns, for good; by one that only plays, so that a checkpoint tells nothing of it."""
    rng = np.random.default_rng(3)
    memory = EpisodicMemory(2, 4, capacity=100, k=3, index=index)
    memory.write(rng.standard_normal((150, 4)), rng.integers(0, 2, 150), np.zeros(150))
    memory.save(tmp_path / "filled")
    played, learning = (EpisodicMemory.load(tmp_path / "filled", index="auto") for _ in range(2))
    assert played.active_index == "exact"
    before = played.settings(), {name: tensor.tobytes() for name, tensor in played.tensors().items()}
    played.estimate(rng.standard_normal((3, 4)), mark_used=False)
    assert played.active_index == "cells"
    assert (played.settings(), {name: tensor.tobytes() for name, tensor in played.tensors().items()}) == before
    learning.estimate(rng.standard_normal((3, 4)))
    assert learning.active_index == "cells"
    learning.save(tmp_path / "tried")
    assert EpisodicMemory.load(tmp_path / "tried").active_index == "cells"


@every_index
def test_settings_from_numpy_are_saved_like_any_others(tmp_path: Path, index: str) -> None:
    memory = EpisodicMemory(
        np.int64(2), np.int32(4), capacity=np.int64(100), k=np.uint8(3), recall=np.float32(0.75), index=index
    )
    memory.write(np.eye(4), [0, 1, 0, 1], np.ones(4))
    memory.estimate(np.eye(4) / 2)
    memory.save(tmp_path)
    assert_same(EpisodicMemory.load(tmp_path), memory)


def test_a_checkpoint_of_nothing_is_no_memory(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, kind="memory", state=small_memory().settings(), tensors={})
    with pytest.raises(CheckpointError, match="no complete memory"):
        EpisodicMemory.load(tmp_path)


def without(tensors: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: array for key, array in tensors.items() if key != name}


@pytest.mark.parametrize("index", ["exact", "cells"])
@pytest.mark.parametrize("name", ["sizes", "states", "values", "entry_ids", "ticks", "keys"])
def test_tensors_that_do_not_fit_the_settings_are_refused(index: str, name: str) -> None:
    memory = small_memory(index)
    kept, tensors = memory.settings(), memory.tensors()
    for broken in (
        without(tensors, name),
        {**tensors, name: tensors[name][:-1]},
        {**tensors, name: np.stack([tensors[name]] * 2)},
    ):
        with pytest.raises(CheckpointError, match="no complete memory") as error:
            EpisodicMemory.restore(kept, broken)
        assert name in str(error.value)
    with pytest.raises(CheckpointError, match="no complete memory"):
        EpisodicMemory.restore(kept, {**tensors, name: tensors[name].astype(np.float64)})


@pytest.mark.parametrize("index", ["exact", "cells"])
@pytest.mark.parametrize("sizes", [[5, 0, 0], [-1, 3, 0], [1, 2, 0]])
def test_sizes_that_do_not_fit_are_refused(index: str, sizes: list[int]) -> None:
    memory = small_memory(index)
    with pytest.raises(CheckpointError, match="no complete memory"):
        EpisodicMemory.restore(memory.settings(), {**memory.tensors(), "sizes": np.array(sizes)})


@pytest.mark.parametrize("name", sorted(EpisodicMemory(1, 1, capacity=1).settings()))
def test_settings_of_a_stranger_are_refused(name: str) -> None:
    memory = small_memory()
    kept = memory.settings()
    for broken in ({**kept, name: "wrong"}, {**kept, name: None}, {**kept, "more": 1}):
        with pytest.raises(CheckpointError, match="no complete memory"):
            EpisodicMemory.restore(broken, memory.tensors())
    if name in ("tick", "next_entry_id"):
        del kept[name]
        with pytest.raises(CheckpointError, match=name):
            EpisodicMemory.restore(kept, memory.tensors())


@cache
def memory_of_cells(index: str) -> EpisodicMemory:
    rng = np.random.default_rng(5)
    memory = EpisodicMemory(2, 3, capacity=300, k=3, index=index)
    memory.estimate(rng.standard_normal((20, 3)))
    memory.write(rng.standard_normal((400, 3)), rng.integers(0, 2, 400), np.zeros(400))
    assert memory.active_index == "cells"
    return memory


TAMPERED: dict[str, Any] = {
    "a cell that is not there": lambda kept: {"cell_of": np.where(np.arange(400) == 7, 10_000, kept["cell_of"])},
    "a cell below 0": lambda kept: {"cell_of": np.where(np.arange(400) == 7, -1, kept["cell_of"])},
    "too few cells": lambda kept: {"cell_of": kept["cell_of"][:-1]},
    "no centres": lambda kept: {"centres": None},
    "centres cut short": lambda kept: {"centres": kept["centres"][:-1]},
    "regions that are no codes": lambda kept: {"regions": kept["regions"].astype(np.float64)},
    "regions that end too late": lambda kept: {"filled": kept["filled"] + 1},
    "too few numbers": lambda kept: {"lows": kept["lows"][:, :-1]},
    "no queries": lambda kept: {"queries": None},
    "longer queries": lambda kept: {"queries": np.zeros((64, 4), np.float32)},
}


@pytest.mark.parametrize("what", list(TAMPERED))
def test_tampered_cells_are_refused(tmp_path: Path, what: str) -> None:
    memory = memory_of_cells("auto")
    kept = memory.tensors()
    changed = TAMPERED[what]({name[6:]: kept[name] for name in kept if name.startswith("index.")})
    tensors = {**kept, **{f"index.{name}": tensor for name, tensor in changed.items()}}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    write_checkpoint(tmp_path, kind="memory", state=memory.settings(), tensors={"memory": tensors})
    with pytest.raises(CheckpointError, match="no complete memory"):
        EpisodicMemory.load(tmp_path)


@pytest.mark.parametrize("value", [None, "wrong", -1])
@pytest.mark.parametrize("name", ["scales", "spare", "reads"])
def test_tampered_settings_of_cells_are_refused(name: str, value: Any) -> None:
    memory = memory_of_cells("cells")
    kept, tensors = memory.settings(), memory.tensors()
    state = kept["index_state"]
    state[name] = value
    with pytest.raises(CheckpointError, match="no complete memory"):
        EpisodicMemory.restore(kept, tensors)
    del state[name]
    with pytest.raises(CheckpointError, match=name):
        EpisodicMemory.restore(kept, tensors)


@pytest.mark.parametrize("index", ["cells", "auto"])
def test_a_checkpoint_without_the_state_of_its_index_is_refused(index: str) -> None:
    memory = memory_of_cells(index)
    kept = memory.settings()
    for broken in ({name: value for name, value in kept.items() if name != "index_state"}, {**kept, "index_state": {}}):
        with pytest.raises(CheckpointError, match="no complete memory"):
            EpisodicMemory.restore(broken, memory.tensors())


def test_a_memory_that_was_saved_before_there_were_cells_is_read() -> None:
    """It had an exact index, and its settings knew neither of recall nor of a state of the index."""
    memory = small_memory("exact")
    kept = memory.settings()
    del kept["index_state"], kept["recall"]
    assert_same(EpisodicMemory.restore(kept, memory.tensors()), memory)
