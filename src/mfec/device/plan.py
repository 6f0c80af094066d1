"""The plan of a search for several runs, compiled because it is made thousands of times a second.

Queries are searched in chunks, each of one run. A job is a chunk and a buffer: one pass over the buffer's entries. A
pair is a query and a buffer: one list of neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit

JOB = 4  # numbers of a job: address of the page table's row, entries, chunk, nothing
PAIR = 4  # numbers of a pair: job, row of the first pass's minima, row of the query, action
UNUSED = -1  # the job of a pair that is only padding


class Plan:
    """Jobs and pairs of requests with `wanted` masks, bool (n, n_actions) each, over buffers with these sizes."""

    def __init__(
        self, wanted: list[NDArray[np.bool_]], sizes: list[NDArray[np.int64]], tables: list[tuple[int, int]], most: int
    ) -> None:
        """tables: address of each run's page table, and the bytes of its rows; most: queries in a chunk."""
        rows = np.array([len(mask) for mask in wanted])
        self.width = min(most, 1 << int(rows.max() - 1).bit_length())
        if len(wanted) == 1:
            self._wanted, of_runs = np.ascontiguousarray(wanted[0]), sizes[0][None]
        else:
            n_actions = max(mask.shape[1] for mask in wanted)
            self._wanted = np.zeros((rows.sum(), n_actions), np.bool_)
            of_runs = np.zeros((len(wanted), n_actions), np.int64)
            begin = 0
            for run, mask in enumerate(wanted):
                self._wanted[begin : begin + len(mask), : mask.shape[1]] = mask
                of_runs[run, : len(sizes[run])] = sizes[run]
                begin += len(mask)
        self.places = _places(rows, self.width)  # the first place of each request's rows in the chunks
        self.chunks = int(-(-rows // self.width).sum())
        self.jobs, self.pairs, self.largest = _plan(
            self._wanted, rows, of_runs, np.array(tables, np.int64), self.width, self.chunks
        )

    def spread(
        self, found: NDArray[np.float64], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """Slots, squared distances and `unsure` of all rows and actions, from the results of the pairs."""
        shape = self._wanted.shape
        slots, squared = np.full((*shape, k + 1), -1, np.int64), np.full((*shape, k + 1), np.inf)
        unsure = np.zeros(shape, np.bool_)
        _spread(self.jobs, self.pairs, found, slots, squared, unsure)
        return slots, squared, unsure


def _places(rows: NDArray[np.int64], width: int) -> list[int]:
    first, places = 0, []
    for n in rows.tolist():
        places.append(first)
        first += -(-n // width) * width
    return places


@njit()
def _plan(wanted, rows, sizes, tables, width, chunks):
    n_actions = wanted.shape[1]
    jobs = np.zeros((chunks * n_actions, 4), np.int64)
    pairs = np.zeros((wanted.size, 4), np.int64)
    n_jobs = n_pairs = chunk = first = largest = 0
    for run in range(len(rows)):
        for begin in range(first, first + rows[run], width):
            end = min(begin + width, first + rows[run])
            for action in range(n_actions):
                if sizes[run, action] == 0:
                    continue
                before = n_pairs
                for row in range(begin, end):
                    if wanted[row, action]:
                        pairs[n_pairs] = n_jobs, n_jobs * width + row - begin, row, action
                        n_pairs += 1
                if n_pairs > before:
                    jobs[n_jobs, 0] = tables[run, 0] + action * tables[run, 1]
                    jobs[n_jobs, 1] = sizes[run, action]
                    jobs[n_jobs, 2] = chunk
                    largest = max(largest, sizes[run, action])
                    n_jobs += 1
            chunk += 1
        first += rows[run]
    return jobs[:n_jobs], pairs[:n_pairs], largest


@njit()
def _spread(jobs, pairs, found, slots, squared, unsure):
    one_more = slots.shape[2]
    for pair in range(len(pairs)):
        row, action = pairs[pair, 2], pairs[pair, 3]
        there = 0
        for i in range(one_more):
            if found[pair, i] < np.inf:
                squared[row, action, i] = found[pair, i]
                slots[row, action, i] = int(found[pair, one_more + i])
                there += 1
        # An entry whose distance is infinite in float32 is missing here.
        hidden = there < min(jobs[pairs[pair, 0], 1], one_more)
        unsure[row, action] = found[pair, 2 * one_more] > 0.0 or hidden
