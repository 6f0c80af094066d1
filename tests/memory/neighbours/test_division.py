"""Codes divided in two: along the gap between two groups, and never by the order in which they come."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mfec.memory.neighbours.codes import PART
from mfec.memory.neighbours.division import SMALLEST_SHARE, divide, mean_code

Codes = NDArray[np.uint8]


def divided(codes: Codes, ranks: NDArray[np.int64] | None = None) -> tuple[NDArray[np.bool_], Codes]:
    side, centres = np.empty(len(codes), np.bool_), np.empty((2, codes.shape[1]), np.uint8)
    divide(codes, np.arange(len(codes)) if ranks is None else ranks, side, centres)
    return side, centres


def group(rng: np.random.Generator, n: int, middle: int, width: int = PART) -> Codes:
    return np.clip(rng.normal(middle, 5, (n, width)), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("sizes", [(96, 96), (150, 42), (24, 168)])
def test_two_groups_are_told_apart(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    codes = np.concatenate([group(rng, sizes[0], 60), group(rng, sizes[1], 140)])
    side, centres = divided(codes)
    assert len(set(side[: sizes[0]].tolist())) == len(set(side[sizes[0] :].tolist())) == 1
    assert side[0] != side[-1]
    assert sorted(centres[:, 0].tolist()) == pytest.approx([60, 140], abs=3)


def test_an_outlier_does_not_become_a_part_of_its_own() -> None:
    rng = np.random.default_rng(1)
    side, _ = divided(np.concatenate([group(rng, 190, 60), group(rng, 2, 250)]))
    assert min(side.sum(), (~side).sum()) >= 192 // SMALLEST_SHARE


@pytest.mark.parametrize("n", [2, 3, 9, 192])
def test_equal_codes_are_divided_too(n: int) -> None:
    codes = np.full((n, 2 * PART), 7, np.uint8)
    side, centres = divided(codes)
    assert min(side.sum(), (~side).sum()) >= max(1, n // SMALLEST_SHARE)
    assert (centres == 7).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_codes_does_not_matter(seed: int) -> None:
    """Many of them are equal, or equally far away."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((100, PART), np.uint8)
    codes[:, :3] = rng.integers(100, 103, (100, 3))
    ranks = rng.permutation(10**9)[:100] if seed == 0 else rng.permutation(100)
    side, centres = divided(codes, ranks)
    order = rng.permutation(100)
    again, same_centres = divided(codes[order], ranks[order])
    assert (again == side[order]).all()
    assert (same_centres == centres).all()


def test_centres_are_the_means_of_the_parts() -> None:
    codes = group(np.random.default_rng(2), 50, 100)
    side, centres = divided(codes)
    for part, centre in zip((~side, side), centres, strict=True):
        mean = codes[part].astype(np.int64).sum(axis=0) / part.sum()
        assert (centre == np.floor(mean + 0.5)).all()


def test_the_mean_of_halves_is_rounded_up() -> None:
    codes, mean = np.zeros((2, PART), np.uint8), np.empty(PART, np.uint8)
    codes[1, :3] = 1, 2, 255
    mean_code(codes, mean)
    assert mean[:4].tolist() == [1, 1, 128, 0]


def test_parts_lie_together() -> None:
    """Nearer to their own mean than to that of the other part, all but a few at the border that moved last."""
    codes = np.random.default_rng(3).integers(0, 256, (192, PART)).astype(np.uint8)
    side, centres = divided(codes)
    away = ((codes[:, None].astype(np.int64) - centres) ** 2).sum(axis=2)
    assert ((away[:, 0] > away[:, 1]) == side).mean() > 0.9
