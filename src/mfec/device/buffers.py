"""The action buffers of one run on a device: states only, in pages that are allocated as they are needed."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from mfec.device.layout import BLOCK, PAGE, WAITING

FIRST_SLAB = 16  # pages that are allocated at once; later an eighth of those there are
AT_ONCE = 2**18  # entries that are copied at a time, so that the copy itself needs little memory


class ActionBuffers:
    """States of all actions, float32, by action and slot.

    Pages lie in slabs, float32 (pages, 128 blocks, dim, 32 entries). A page never moves, so GPU kernels read its
    address from the page table. A memory that grows allocates more slabs and copies nothing.
    """

    def __init__(
        self, n_actions: int, capacity: int, dim: int, device: torch.device, *, by_kernels: bool = False
    ) -> None:
        """by_kernels: read and write states by Triton kernels; a small copy takes several launches of torch."""
        self.by_kernels = by_kernels
        self.n_actions, self.capacity, self.dim, self.device = n_actions, capacity, dim, device
        self.sizes = np.zeros(n_actions, np.int64)
        most = -(-capacity // PAGE)
        self.table = torch.zeros((n_actions, most), dtype=torch.int64, device=device)
        self._addresses = np.zeros((n_actions, most), np.int64)
        self._places = np.full((n_actions, most, 2), -1, np.int64)  # slab and page within it
        self._pages = np.zeros(n_actions, np.int64)
        self._slabs: list[torch.Tensor] = []
        self._waiting: dict[int, NDArray[np.float32]] = {}  # states that are not written yet, by address
        self._free = 0  # unused pages of the last slab

    @property
    def nbytes(self) -> int:
        """Bytes allocated on the device."""
        return sum(slab.nbytes for slab in self._slabs) + self.table.nbytes

    def store(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Put states, float32 (n, dim), into these slots; if two are for the same slot, the later one stays.

        Kernels write a few with the next look-up: on their own, a single one would take as long as a step's search.
        """
        if len(actions) == 0:
            return
        sizes = self.sizes.copy()
        np.maximum.at(sizes, actions, slots + 1)
        self._take_pages(-(-sizes // PAGE))
        self.sizes = sizes
        if self.by_kernels and len(actions) + len(self._waiting) <= WAITING:
            self._waiting.update(zip(self.addresses(actions, slots).tolist(), np.array(states), strict=True))
            return
        self.flush()
        # A GPU assigns in no fixed order, so all but the last state of a slot are dropped first.
        _, last = np.unique((actions * self.capacity + slots)[::-1], return_index=True)
        kept = len(actions) - 1 - last
        for begin in range(0, len(kept), AT_ONCE):
            some = kept[begin : begin + AT_ONCE]
            if self.by_kernels:
                self._write(self.addresses(actions[some], slots[some]), states[some])
                continue
            rows = torch.from_numpy(states[some]).to(self.device)
            for slab, here, (page, block, entry) in self._places_of(actions[some], slots[some]):
                slab[page, block, :, entry] = rows[here]

    def take_waiting(self, addresses: NDArray[np.int64], rows: NDArray[np.float32]) -> int:
        """Hand over the states that wait, if there is room for all; returns how many."""
        n = len(self._waiting)
        if n > len(rows):
            self.flush()
            return 0
        for i, (address, state) in enumerate(self._waiting.items()):
            addresses[i], rows[i] = address, state
        self._waiting.clear()
        return n

    def flush(self) -> None:
        """Write the states that wait."""
        if self._waiting:
            self._write(np.array([*self._waiting]), np.array([*self._waiting.values()]))
            self._waiting.clear()

    def _write(self, addresses: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        from mfec.device.kernels import write_rows

        write_rows(torch.from_numpy(addresses).to(self.device), torch.from_numpy(states).to(self.device))

    def shrink(self, sizes: NDArray[np.int64]) -> None:
        """Forget the states beyond these sizes, int64 (n_actions,); their pages stay for those that come next."""
        self.flush()
        self.sizes = np.minimum(self.sizes, sizes)

    def gather(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> torch.Tensor:
        """States, float32 (n, dim), of these slots, on the device."""
        self.flush()
        states = torch.empty((len(actions), self.dim), device=self.device)
        if self.by_kernels and len(actions):
            from mfec.device.kernels import read_rows

            read_rows(torch.from_numpy(self.addresses(actions, slots)).to(self.device), states)
            return states
        for slab, here, (page, block, entry) in self._places_of(actions, slots):
            states[here] = slab[page, block, :, entry]
        return states

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of these slots, on the host."""
        states = np.empty((len(actions), self.dim), np.float32)
        for begin in range(0, len(actions), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            states[some] = self.gather(actions[some], slots[some]).cpu().numpy()
        return states

    def addresses(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where on the device the first numbers of these states are; a state's other numbers lie 32 apart from it."""
        inside = slots % PAGE
        numbers = inside // BLOCK * (BLOCK * self.dim) + inside % BLOCK
        places: NDArray[np.int64] = self._addresses[actions, slots // PAGE] + 4 * numbers
        return places

    def pages(self, action: int) -> torch.Tensor:
        """The pages of one action, in order: float32 (pages, blocks, dim, 32); a copy if there are several."""
        self.flush()
        slabs, own = self._places[action, : self._pages[action]].T
        if len(own) == 1:
            blocks = -(-int(self.sizes[action]) // BLOCK)
            slab: torch.Tensor = self._slabs[int(slabs[0])]
            return slab[int(own[0]) : int(own[0]) + 1, :blocks]
        copy = torch.empty((len(own), PAGE // BLOCK, self.dim, BLOCK), device=self.device)
        for slab in np.unique(slabs).tolist():
            here = np.flatnonzero(slabs == slab)
            index, pages = torch.from_numpy(np.stack([here, own[here]])).to(self.device)
            copy[index] = self._slabs[slab][pages]
        return copy

    def entries(self, action: int) -> torch.Tensor:
        """A copy of all states of one action in slot order, float32 (entries, dim)."""
        return self.pages(action).transpose(2, 3).reshape(-1, self.dim)[: int(self.sizes[action])]

    def _places_of(
        self, actions: NDArray[np.int64], slots: NDArray[np.int64]
    ) -> list[tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]]:
        """For each slab: which of these slots it holds, and where."""
        slabs, pages = self._places[actions, slots // PAGE].T
        found = []
        for number in np.unique(slabs).tolist():
            here = np.flatnonzero(slabs == number)
            inside = slots[here] % PAGE
            where = np.stack([here, pages[here], inside // BLOCK, inside % BLOCK])
            index, page, block, entry = torch.from_numpy(where).to(self.device)
            found.append((self._slabs[number], index, (page, block, entry)))
        return found

    def _take_pages(self, needed: NDArray[np.int64]) -> None:
        """Allocate pages until each action has as many as it needs."""
        if (needed <= self._pages).all():
            return
        for action in np.flatnonzero(needed > self._pages).tolist():
            for page in range(int(self._pages[action]), int(needed[action])):
                if self._free == 0:
                    self._take_slab(int((needed - self._pages).sum()))
                slab = self._slabs[-1]
                own = len(slab) - self._free
                self._free -= 1
                self._places[action, page] = len(self._slabs) - 1, own
                self._addresses[action, page] = slab[own].data_ptr()
            self._pages[action] = needed[action]
        self.table.copy_(torch.from_numpy(self._addresses))

    def _take_slab(self, needed: int) -> None:
        there = sum(len(slab) for slab in self._slabs)
        ahead = max(there // 8, FIRST_SLAB) if there else 1
        pages = max(needed, min(ahead, self.table.numel() - there))
        self._slabs.append(torch.empty((pages, PAGE // BLOCK, self.dim, BLOCK), device=self.device))
        self._free = pages
