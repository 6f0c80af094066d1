"""The sum tree against a plain list and a running sum."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfec.algorithms.baselines.sum_tree import SumTree

# Sums of eighths are exact, so that the reference can be met to the bit; other numbers are for what must hold anyway.
EIGHTHS = st.integers(0, 800).map(lambda number: number / 8)
ANY = st.one_of(st.just(0.0), st.floats(1e-12, 1e12), st.floats(0.0, 1.0))


@st.composite
def writes(draw: st.DrawFn, priorities: st.SearchStrategy[float] = EIGHTHS) -> tuple[int, list[tuple[list, list]]]:
    """The size of a tree and what is written to it, item by item and many at once, some of them twice."""
    size = draw(st.integers(1, 70))
    items = st.lists(st.integers(0, size - 1), min_size=1, max_size=20)
    batches = [
        (own, draw(st.lists(priorities, min_size=len(own), max_size=len(own))))
        for own in draw(st.lists(items, min_size=1, max_size=5))
    ]
    return size, batches


def written(size: int, batches: list[tuple[list, list]]) -> tuple[SumTree, list[float]]:
    """A tree and a plain list with the same priorities."""
    tree, plain = SumTree(size), [0.0] * size
    for items, priorities in batches:
        tree.set(items, priorities)
        for item, priority in zip(items, priorities, strict=True):
            plain[item] = priority
    return tree, plain


def find_plainly(plain: list[float], amount: float) -> int:
    running = Fraction(0)
    for item, priority in enumerate(plain):
        running += Fraction(priority)
        if amount < running:
            return item
    raise AssertionError(f"{amount} is not below the sum of {plain}")


@given(writes())
def test_it_holds_what_a_list_holds(case):
    tree, plain = written(*case)
    assert tree.priorities.tolist() == plain
    assert tree.total == sum(plain)


@given(writes(), st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=20))
def test_it_finds_what_a_running_sum_finds(case, shares):
    tree, plain = written(*case)
    if tree.total:
        edges = np.cumsum(plain)[:-1]  # the beginning of the next item's share
        amounts = [*(share * tree.total for share in shares), *edges[edges < tree.total].tolist()]
        amounts = [amount for amount in amounts if amount < tree.total]  # a product may be rounded up to the total
        assert tree.find(amounts).tolist() == [find_plainly(plain, amount) for amount in amounts]


@given(writes(ANY))
def test_sums_are_those_of_the_children_whatever_was_there_before(case):
    """No error adds up: a tree that was written to often equals one that was written to once."""
    tree, plain = written(*case)
    once = SumTree(len(plain))
    once.set(np.arange(len(plain)), plain)
    assert tree.total == once.total
    assert math.isclose(tree.total, math.fsum(plain), rel_tol=1e-14)


@given(writes(ANY), st.lists(st.floats(0.0, 1.0), max_size=20))
def test_what_has_no_priority_is_never_found(case, shares):
    """Not at the edges either, where sums are rounded, nor at the total itself."""
    tree, plain = written(*case)
    if tree.total:
        edges = [0.0, tree.total, *np.cumsum(plain).tolist(), *(share * tree.total for share in shares)]
        amounts = [near for edge in edges for near in (np.nextafter(edge, -np.inf), edge, np.nextafter(edge, np.inf))]
        found = tree.find(amounts)
        assert found.min() >= 0
        assert found.max() < len(plain)
        assert all(plain[item] > 0.0 for item in found.tolist())


def test_of_an_item_that_is_named_twice_the_last_priority_counts():
    tree = SumTree(5)
    tree.set([3, 1, 3], [7.0, 1.0, 2.0])
    assert tree.priorities.tolist() == [0.0, 1.0, 0.0, 2.0, 0.0]
    assert tree.total == 3.0


def test_shares_are_found_as_often_as_they_are_large():
    tree = SumTree(3)
    tree.set([0, 1, 2], [1.0, 0.0, 3.0])
    found = tree.find((np.arange(4000) + 0.5) * (tree.total / 4000))
    assert np.bincount(found).tolist() == [1000, 0, 3000]


def test_shapes_are_kept():
    tree = SumTree(4)
    tree.set([[0, 1], [2, 3]], [[1.0], [2.0]])
    assert tree.priorities.tolist() == [1.0, 1.0, 2.0, 2.0]
    assert tree.find([[0.5, 1.5], [2.5, 4.5]]).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_bytes_are_those_of_all_nodes(size):
    assert 16 * size <= SumTree(size).nbytes <= 32 * size


@pytest.mark.parametrize("size", [0, -3])
def test_a_tree_has_an_item(size):
    with pytest.raises(ValueError, match=f"a sum tree has at least 1 item, not {size}"):
        SumTree(size)


@pytest.mark.parametrize("items", [[5], [-1], [0, 4, 5]])
def test_items_that_are_not_there_are_refused(items):
    """Of a tree of 5 items there are 8 leaves."""
    tree = SumTree(5)
    with pytest.raises(IndexError, match="items are numbered from 0 to 4"):
        tree.set(items, np.ones(len(items)))
    assert tree.total == 0.0


@pytest.mark.parametrize("priority", [-1.0, np.nan, np.inf])
def test_priorities_that_are_no_priorities_are_refused(priority):
    tree = SumTree(5)
    with pytest.raises(ValueError, match="priorities must be finite and not negative"):
        tree.set([0, 1], [1.0, priority])
    assert tree.total == 0.0


def test_nothing_is_found_where_there_is_nothing():
    tree = SumTree(5)
    with pytest.raises(ValueError, match="there is nothing to find: all priorities are 0"):
        tree.find([0.0])
    tree.set([], [])
    tree.set([2], [1.0])
    tree.set([2], [0.0])
    with pytest.raises(ValueError, match="there is nothing to find: all priorities are 0"):
        tree.find([0.0])
