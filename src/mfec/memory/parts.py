"""The entries of a memory in the files of a checkpoint, of which the next checkpoint keeps most.

A memory of up to 64 MB is written whole. A larger one lies in files of that size, and a last one has what look-ups
change in all entries, 16 bytes each, and what the index keeps. A new checkpoint adds the entries that were written or
moved since the last one. To its file it adds those of the files that hold the fewest, as far as they fit, and these
files go. So a run never writes all again, nor reads any of it: entries are merged out of the memory itself. Of an entry
that lies in several files the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.checkpoint import File, Files, Standing
from mfec.memory.buffers import ROWS, Buffers
from mfec.memory.neighbours import NeighbourIndex

PART_BYTES = 2**26  # 220,000 entries of 64 numbers; written, summed up and flushed in about 0.15 s

Places = tuple[NDArray[np.int64], NDArray[np.int64]]


class Parts:
    """Which file of the last checkpoint holds which entry (`Buffers.files`), for `write_checkpoint`."""

    def __init__(self, buffers: Buffers, index: NeighbourIndex, dim: int) -> None:
        self._buffers, self._index, self._dim = buffers, index, dim
        self._each = 4 * dim + 8 + sum(int(getattr(buffers, name)[0, :1].nbytes) for name in ROWS)  # bytes of an entry
        self._standing: Standing | None = None  # the last checkpoint that was written or read here
        self._held: dict[int, File] = {}  # its files, by their numbers in `Buffers.files`; any other number means none
        # Of the checkpoint that is being written: the files that it keeps, and the numbers of those that it adds.
        self._next: tuple[dict[int, File], list[int]] = {}, []

    # -- Writing ------------------------------------------------------------------------------------------------------

    def begin(self, standing: Standing | None) -> tuple[Sequence[File], Iterator[Mapping[str, Any]]]:
        """Files that are kept of the checkpoint that stands there, and the tensors of each new file."""
        if standing != self._standing:  # another wrote there, or it is another directory
            self._held = {}
        at_once, total = max(1, PART_BYTES // self._each), int(self._buffers.sizes.sum())
        if total <= at_once:
            self._next = {}, []
            return [], iter([self.tensors()])
        kept, to_write = self._choose(total, at_once)
        free = (number for number in range(1, 2**16) if number not in self._held)
        added = [next(free) for _ in range(_ceil(to_write, at_once))]
        self._next = kept, added
        return list(kept.values()), self._files(kept, added, at_once)

    def _choose(self, total: int, at_once: int) -> tuple[dict[int, File], int]:
        """Files that are kept, and how many entries the new ones take."""
        counts = self._counts()
        kept = dict(self._held)
        changed = to_write = total - sum(counts[number] for number in kept)
        room = _ceil(changed, at_once) * at_once - changed
        if sum(file.bytes for file in kept.values()) > 2 * total * self._each:
            room += _ceil(changed, at_once) * at_once  # more than half of it counts no longer
        for number in sorted(kept, key=counts.__getitem__):
            if to_write - changed + counts[number] > room:
                break
            to_write += counts[number]
            del kept[number]
        return kept, to_write

    def written(self, standing: Standing, added: Sequence[File]) -> None:
        """The new checkpoint stands, with these new files."""
        kept, numbers = self._next
        self._standing, self._held = standing, {**kept, **dict(zip(numbers, added, strict=False))}

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The entries of all buffers, one after the other in slot order, and what the index keeps."""
        return {**self._buffers.tensors(), "states": self._index.rows(*self._buffers.places()), **self._of_index()}

    def _of_index(self) -> dict[str, NDArray[Any]]:
        return {f"index.{name}": tensor for name, tensor in self._index.tensors().items()}

    def _counts(self) -> NDArray[np.int64]:
        """How many entries the file of each number holds as they are."""
        counts = np.zeros(2**16, np.int64)
        for own, size in zip(self._buffers.files, self._buffers.sizes, strict=True):
            counts += np.bincount(own[:size], minlength=len(counts))
        return counts

    def _files(self, kept: dict[int, File], added: list[int], at_once: int) -> Iterator[dict[str, Any]]:
        """The tensors of new files: entries that no kept file holds as they are, and the last with the rest."""
        numbers = iter(added)
        for places in self._in_parts(kept, at_once):
            # Should this checkpoint fail, no file has this number, and the next one takes these entries.
            self._buffers.files[places] = next(numbers)
            yield {
                "counts": np.bincount(places[0], minlength=len(self._buffers.sizes)),
                "slots": places[1],
                "states": self._index.rows(*places),
                **self._buffers.rows(*places),
            }
        yield {**self._buffers.columns(), **self._of_index()}

    def _in_parts(self, kept: dict[int, File], at_once: int) -> Iterator[Places]:
        elsewhere = np.ones(2**16, np.bool_)
        elsewhere[list(kept)] = False
        waiting: list[Places] = []
        room = at_once
        for action, size in enumerate(self._buffers.sizes.tolist()):
            slots = np.flatnonzero(elsewhere[self._buffers.files[action, :size]])
            while len(slots):
                waiting.append((np.full(len(slots[:room]), action), slots[:room]))
                slots, room = slots[room:], room - len(slots[:room])
                if not room:
                    yield _joined(waiting)
                    waiting, room = [], at_once
        if waiting:
            yield _joined(waiting)

    # -- Reading ------------------------------------------------------------------------------------------------------

    def restore(self, tensors: Mapping[str, NDArray[Any]] | Files) -> dict[str, NDArray[Any]]:
        """Fill empty buffers, and an index that is not resumed yet, file by file; returns what the index kept."""
        if isinstance(tensors, Files):
            last = tensors[-1]
            self._buffers.restore_columns(last)
            for number, file in enumerate(tensors.files[:-1], start=1):
                self._put_part(number, tensors[number - 1])
                self._held[number] = file
            self._standing = tensors.standing
            if not all(own[:size].all() for own, size in zip(self._buffers.files, self._buffers.sizes, strict=True)):
                raise ValueError("entries are missing from its files")
        else:
            last = tensors
            self._buffers.restore_columns(last)
            self._put(self._buffers.places(), tensors)
        return {name[6:]: tensor for name, tensor in last.items() if name.startswith("index.")}

    def _put_part(self, number: int, part: Mapping[str, NDArray[Any]]) -> None:
        """Put the entries of a file where they belong, without those that the memory had forgotten later."""
        counts, slots = part["counts"], part["slots"]
        fit = counts.shape == self._buffers.sizes.shape and counts.dtype == slots.dtype == np.int64
        if not fit or counts.min() < 0 or slots.shape != (counts.sum(),) or slots.min(initial=0) < 0:
            raise ValueError("the places of its entries do not fit its settings")
        actions = np.repeat(np.arange(len(counts)), counts)
        there = slots < self._buffers.sizes[actions]
        if not there.all():
            actions, slots = actions[there], slots[there]
            part = {name: part[name][there] for name in ("states", *ROWS)}
        self._put((actions, slots), part)
        self._buffers.files[actions, slots] = number

    def _put(self, places: Places, tensors: Mapping[str, NDArray[Any]]) -> None:
        states = tensors["states"]
        if states.dtype != np.float32 or states.shape != (len(places[0]), self._dim):
            raise ValueError("its tensor 'states' does not fit its settings")
        self._buffers.put_rows(*places, tensors)
        self._index.fill(*places, states)


def _joined(places: list[Places]) -> Places:
    actions, slots = (np.concatenate(arrays) for arrays in zip(*places, strict=True))
    return actions, slots


def _ceil(n: int, divisor: int) -> int:
    return -(-n // divisor)
