"""What a checkpoint keeps of cells, and cells made of it again: the same in all that decides what is found.

Cells are numbered anew, region by region, and the rows in each come in another order. Nothing depends on either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.memory.neighbours.cell_centres import N_REGIONS, NUMBERS, REGION
from mfec.memory.neighbours.cell_changes import CodedCells, lay_out
from mfec.memory.neighbours.cell_rows import ROWS, most_cells
from mfec.memory.neighbours.codes import COARSEST_STEP, LEVELS, PART, get_codes, parts_of, put_codes
from mfec.memory.neighbours.index import Shape


def tensors_of(cells: CodedCells, sizes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """The cells, region by region, and the cell of each entry in slot order; sizes: entries of each buffer."""
    books, centres, rows = cells
    width = centres.codes.shape[1]
    filled = centres.filled[: centres.counts[N_REGIONS]].copy()
    order = np.concatenate([centres.cells[region, :n] for region, n in enumerate(filled)] or [centres.cells[0, :0]])
    numbers = np.empty(centres.counts[NUMBERS], np.int32)
    numbers[order] = np.arange(len(order), dtype=np.int32)
    return {
        "lows": books.lows.copy(),
        "filled": filled,
        "regions": get_codes(centres.regions, np.arange(len(filled)), width),
        "centres": get_codes(centres.centres, centres.places[order], width),
        "codes": centres.codes[order],
        "steps": centres.steps[order],
        "misfits": centres.misfits[order],
        "books": centres.books[order],
        "cell_of": np.concatenate(
            [numbers[(own[:size] - 1) // ROWS] for own, size in zip(rows.where, sizes, strict=True)]
        ),
    }


def put_back(
    cells: CodedCells,
    states: NDArray[np.float32],
    actions: NDArray[np.int64],
    slots: NDArray[np.int64],
    settings: dict[str, Any],
    tensors: dict[str, NDArray[Any]],
) -> None:
    """Fill new cells with these entries, as settings and tensors that `cells_fit` say."""
    books, centres, _ = cells
    books.lows[:], books.scales[:], books.today[0] = tensors["lows"], settings["scales"], settings["book"]
    filled, n_cells = tensors["filled"], len(tensors["centres"])
    places = np.flatnonzero(np.arange(REGION) < filled[:, None])  # region by region
    centres.filled[: len(filled)] = filled
    centres.cells.reshape(-1)[places] = np.arange(n_cells)
    centres.places[:n_cells] = places
    put_codes(centres.regions, centres.region_norms, np.arange(len(filled)), tensors["regions"])
    put_codes(centres.centres, centres.norms, places, tensors["centres"])
    for name in ("codes", "steps", "misfits", "books"):
        getattr(centres, name)[:n_cells] = tensors[name]
    old = int(np.count_nonzero(tensors["books"] != settings["book"]))
    centres.counts[:] = len(filled), n_cells, n_cells, 0, settings["cursor"], old
    lay_out(states, actions, slots, tensors["cell_of"], cells)


def cells_fit(
    cells: CodedCells,
    shape: Shape,
    actions: NDArray[np.int64],
    settings: dict[str, Any],
    tensors: dict[str, NDArray[Any]],
) -> bool:
    """Whether these describe cells of an index of this shape, with as many entries; compiled code trusts them."""
    n_actions, capacity, dim = shape
    width, n_regions, n_cells = parts_of(dim) * PART, len(tensors["regions"]), len(tensors["centres"])
    wanted: dict[str, tuple[Any, tuple[int, ...], float, float]] = {  # type, shape, least, most
        "lows": (np.float64, (2, dim), -np.inf, np.inf),
        "filled": (np.int32, (n_regions,), min(1, n_cells), REGION),
        "regions": (np.uint8, (n_regions, width), 0, LEVELS),
        "centres": (np.uint8, (n_cells, width), 0, LEVELS),
        "codes": (np.uint8, (n_cells, width), 0, LEVELS),
        "steps": (np.int32, (n_cells,), 1, COARSEST_STEP),
        "misfits": (np.int32, (n_cells,), 0, ROWS),
        "books": (np.uint8, (n_cells,), 0, 1),
        "cell_of": (np.int32, actions.shape, 0, n_cells - 1),
    }
    return bool(
        all(
            tensor.dtype == kind
            and tensor.shape == size
            and (tensor.size == 0 or (tensor.min() >= least and tensor.max() <= most))
            for tensor, (kind, size, least, most) in ((tensors[name], want) for name, want in wanted.items())
        )
        and np.isfinite(tensors["lows"]).all()
        and tensors["filled"].sum() == n_cells <= most_cells(n_actions * capacity)
        and n_regions <= len(cells.centres.filled)
        and (n_cells > 0) == (len(actions) > 0)
        and np.bincount(tensors["cell_of"], minlength=1).max() < ROWS
        and all(0.0 < float(scale) < np.inf for scale in settings["scales"])
        and len(settings["scales"]) == 2
        and settings["book"] in (0, 1)
        and 0 <= int(settings["cursor"]) <= n_regions * REGION
    )
