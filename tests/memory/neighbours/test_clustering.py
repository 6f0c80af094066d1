"""Cells of codes: the same for any number of threads, and better than where they began."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mfec.memory.neighbours.clustering import Cells, cluster, nearest_centres
from mfec.memory.neighbours.codes import PART

Codes = NDArray[np.uint8]


def clustered_codes(rng: np.random.Generator, n: int, n_clusters: int = 40, dim: int = 12) -> Codes:
    codes = np.zeros((n, PART), np.uint8)
    centres = rng.integers(20, 236, (n_clusters, dim))
    codes[:, :dim] = np.clip(centres[rng.integers(0, n_clusters, n)] + rng.normal(0, 6, (n, dim)), 0, 255)
    return codes


def squared_distances(codes: Codes, centres: Codes) -> NDArray[np.int64]:
    return ((codes[:, None].astype(np.int64) - centres[None].astype(np.int64)) ** 2).sum(axis=2)


def check(cells: Cells) -> None:
    """Every region has cells of its own, and they are all of the cells."""
    assert len(cells) == len(cells.centres) > 0
    assert cells.regions.dtype == cells.centres.dtype == np.uint8
    assert cells.regions.shape[1] == cells.centres.shape[1]
    assert cells.first.shape == (len(cells.regions) + 1,)
    assert (cells.first[0], cells.first[-1]) == (0, len(cells))
    assert (np.diff(cells.first) > 0).all()


@pytest.mark.parametrize("n_cells", [1, 2, 3, 16, 50, 100])
def test_there_are_about_as_many_cells_as_asked_for(n_cells: int) -> None:
    codes = clustered_codes(np.random.default_rng(n_cells), 3000)
    cells = cluster(codes, n_cells)
    check(cells)
    assert 0.8 * n_cells <= len(cells) <= 1.25 * n_cells
    assert abs(len(cells.regions) - n_cells**0.5) <= 1


def test_centres_lie_where_the_codes_do() -> None:
    """A mean lies within the range of what it is a mean of; numbers that are only padding stay 0."""
    codes = clustered_codes(np.random.default_rng(0), 2000)
    cells = cluster(codes, 30)
    for centres in (cells.regions, cells.centres):
        assert (centres >= codes.min(axis=0)).all()
        assert (centres <= codes.max(axis=0)).all()
        assert not centres[:, 12:].any()


@pytest.mark.parametrize("width", [PART, 2 * PART])
def test_cells_are_the_same_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    codes = np.zeros((2500, width), np.uint8)
    codes[:, -PART:] = clustered_codes(np.random.default_rng(1), 2500, dim=64)
    made = []
    for number in ("1", "2", "3", "8"):
        monkeypatch.setenv("MFEC_THREADS", number)
        cells = cluster(codes, 40)
        nearest = nearest_centres(codes, cells.centres)
        made.append([array.tobytes() for array in (cells.regions, cells.centres, cells.first, nearest)])
    assert made[0] == made[1] == made[2] == made[3]


def test_clustering_twice_gives_the_same_and_leaves_the_codes_alone() -> None:
    codes = clustered_codes(np.random.default_rng(2), 500)
    before = codes.copy()
    first, second = cluster(codes, 10), cluster(codes, 10)
    assert (first.centres == second.centres).all()
    assert (codes == before).all()


def test_one_code_is_one_cell() -> None:
    code = clustered_codes(np.random.default_rng(3), 1)
    for n_cells in (1, 5):
        cells = cluster(code, n_cells)
        check(cells)
        assert (cells.centres == code).all()
        assert len(cells) == 1


def test_identical_codes_are_one_cell() -> None:
    codes = np.repeat(clustered_codes(np.random.default_rng(4), 1), 300, axis=0)
    cells = cluster(codes, 9)
    check(cells)
    assert (cells.centres == codes[0]).all()
    assert len(cells) == 1


def test_fewer_codes_than_cells() -> None:
    """Each code becomes its own cell, at most."""
    codes = clustered_codes(np.random.default_rng(5), 7)
    cells = cluster(codes, 64)
    check(cells)
    assert len(cells) <= 7
    assert {code.tobytes() for code in cells.centres} <= {code.tobytes() for code in codes}


def test_the_mean_of_halves_is_rounded_up() -> None:
    codes = np.zeros((2, PART), np.uint8)
    codes[1, :3] = 1, 2, 255
    assert cluster(codes, 1).centres[0, :4].tolist() == [1, 1, 128, 0]


@pytest.mark.parametrize("seed", range(3))
def test_codes_lie_nearer_to_their_cells_than_to_codes_at_random(seed: int) -> None:
    """k-means begins with codes spread evenly over the sample: it must do better than they do."""
    codes = clustered_codes(np.random.default_rng(seed), 2000)
    cells = cluster(codes, 40)
    begun = codes[np.arange(len(cells)) * len(codes) // len(cells)]
    before = squared_distances(codes, begun).min(axis=1).mean()
    after = squared_distances(codes, cells.centres).min(axis=1).mean()
    assert after < 0.6 * before


@pytest.mark.parametrize("n_centres", [1, 15, 16, 17, 40])
def test_the_nearest_centre_is_found(n_centres: int) -> None:
    """The first one among equals."""
    rng = np.random.default_rng(n_centres)
    codes, centres = clustered_codes(rng, 300), clustered_codes(rng, n_centres)
    centres[n_centres // 2] = centres[0]
    assert nearest_centres(codes, centres).tolist() == squared_distances(codes, centres).argmin(axis=1).tolist()


def test_cells_of_their_centres_are_the_same_cells() -> None:
    """What a checkpoint keeps of cells is enough to make them again."""
    cells = cluster(clustered_codes(np.random.default_rng(6), 1000), 25)
    again = Cells.of(cells.regions.copy(), cells.centres.copy(), cells.first.copy())
    assert [array.tobytes() for array in again.arrays] == [array.tobytes() for array in cells.arrays]
