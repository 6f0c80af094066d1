"""A sum tree: numbers that are drawn in proportion to their size (Schaul et al., 2016, appendix B.2.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


class SumTree:
    """Priorities of `size` items in the leaves of a binary tree; every node holds the sum of its two children.

    >>> tree = SumTree(4)
    >>> tree.set([0, 2], [1.0, 3.0])
    >>> tree.total, tree.find([0.5, 1.5, 3.9]).tolist()
    (4.0, [0, 2, 2])
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a sum tree has at least 1 item, not {size}")
        self.size = size
        self._leaves = 1 << (size - 1).bit_length()  # on one level, from this node on
        self._levels = self._leaves.bit_length() - 1
        self._sums = np.zeros(2 * self._leaves)  # node 1 is the root, the children of i are 2i and 2i + 1

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._sums[1])

    @property
    def priorities(self) -> NDArray[np.float64]:
        """The priority of every item, (size,)."""
        return self._sums[self._leaves : self._leaves + self.size]

    @property
    def nbytes(self) -> int:
        """Bytes of the tree."""
        return int(self._sums.nbytes)

    def set(self, items: ArrayLike, priorities: ArrayLike) -> None:
        """Give items new priorities; of an item that is named twice, the last one counts."""
        nodes = np.asarray(items, np.int64) + self._leaves
        values = np.asarray(priorities, np.float64)
        if nodes.size and (nodes.min() < self._leaves or nodes.max() >= self._leaves + self.size):
            raise IndexError(f"items are numbered from 0 to {self.size - 1}")
        if not (np.isfinite(values).all() and (values >= 0.0).all()):
            raise ValueError("priorities must be finite and not negative")
        self._sums[nodes] = values
        # Sums are made anew from the children and never corrected by a difference, so no error adds up.
        for _ in range(self._levels):
            nodes = nodes >> 1
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

    def find(self, amounts: ArrayLike) -> NDArray[np.int64]:
        """For each amount from 0 up to the total: the item in whose share of the running sum it lies.

        An item of priority 0 is never found, however the amounts are rounded.
        """
        left_over = np.array(amounts, np.float64)
        if self.total <= 0.0:
            raise ValueError("there is nothing to find: all priorities are 0")
        nodes = np.ones(left_over.shape, np.int64)
        for _ in range(self._levels):
            left, right = self._sums[2 * nodes], self._sums[2 * nodes + 1]
            goes_right = ((left_over >= left) & (right > 0.0)) | (left <= 0.0)
            left_over = np.where(goes_right, left_over - left, left_over)
            nodes = 2 * nodes + goes_right
        return nodes - self._leaves
