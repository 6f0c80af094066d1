"""Eq. 1 and Eq. 2 of the paper, and the compiled loops over actions, neighbours and steps that apply them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.identities import add_slot, find_slot, remove_slot


class Experience(NamedTuple):
    """Steps to write, in order."""

    actions: NDArray[np.int64]  # (n,)
    returns: NDArray[np.float32]  # (n,)
    keys: NDArray[np.uint64]  # (n, 2)
    origins: NDArray[np.int32]  # (n, 2)


class Rule(NamedTuple):
    """What a return does to the value of a known state and action."""

    update: int  # a position in UPDATES
    alpha: float  # of `step`


@njit()
def all_finite(states):
    """Whether all numbers of states (n, dim) are finite; for one state, numpy takes ten times as long to begin."""
    for row in range(states.shape[0]):
        for j in range(states.shape[1]):
            if not np.isfinite(states[row, j]):
                return False
    return True


@njit()
def replaces_value(ret, value, rule):
    """Eq. 1 for a known state and action: Q(s, a) <- max(Q(s, a), R); the other rules heed every return."""
    return ret > value or rule.update != 0


@njit()
def new_value(ret, value, rule):
    """R itself (Eq. 1, and the paper's footnote); or Q(s, a) + alpha (R - Q(s, a)), as Neural Episodic Control has it.

    The footnote is not alpha = 1: that would turn a return of -0.0 into 0.0.
    """
    return value + rule.alpha * (np.float64(ret) - value) if rule.update == 2 else np.float64(ret)


@njit()
def mean_of_neighbours(values, slots, squared, kernel, delta):
    """Eq. 2 for a new state: the mean of its neighbours' values, weighted by `kernel`; and how many there are."""
    total, whole, found = 0.0, 0.0, 0
    for i in range(len(slots)):
        if slots[i] >= 0:
            own = weight(squared[i], kernel, delta)
            total += own * values[slots[i]]
            whole += own
            found += 1
    return (total / whole if found else 0.0), found


@njit()
def average(stored, matches, neighbours, squared, few, kernel, delta, values):
    """Write values (Eq. 2): those of exact matches, and means of neighbours elsewhere.

    `few` is a position in FEW_NEIGHBOURS, `kernel` one in KERNELS.
    """
    n, n_actions, k = neighbours.shape
    for row in range(n):
        for action in range(n_actions):
            if matches[row, action] >= 0:
                values[row, action] = stored[action, matches[row, action]]
                continue
            near, apart = neighbours[row, action], squared[row, action]
            mean, found = mean_of_neighbours(stored[action], near, apart, kernel, delta)
            if has_mean(found, k, few):
                values[row, action] = mean
            else:
                values[row, action] = 0.0 if few == 2 else np.inf


@njit()
def weight(squared, kernel, delta):
    """The weight of a neighbour at this squared distance, not normalised; `kernel` is a position in KERNELS.

    delta: keeps a neighbour at distance 0 from deciding alone.
    """
    return 1.0 if kernel == 0 else 1.0 / (squared + delta)


@njit()
def normalised_weights(squared, kernel, delta):
    """The weights of all neighbours behind one value, float64 (m,), which sum to 1."""
    weights = np.empty(len(squared))
    for i in range(len(squared)):
        weights[i] = weight(squared[i], kernel, delta)
    return weights / weights.sum()


@njit()
def has_mean(found, k, few):
    """Whether so many neighbours are enough for a mean."""
    return found == k or (few == 1 and found > 0)


@njit()
def set_ticks(ticks, tick, matches, neighbours):
    """Mark matches and neighbours as used now."""
    n, n_actions, k = neighbours.shape
    for row in range(n):
        for action in range(n_actions):
            if matches[row, action] >= 0:
                ticks[action, matches[row, action]] = tick + row
            for i in range(k):
                if neighbours[row, action, i] >= 0:
                    ticks[action, neighbours[row, action, i]] = tick + row


@njit()
def count_matches(matched, matches):
    """Add one to the count of each entry that was matched."""
    n, n_actions = matches.shape
    for row in range(n):
        for action in range(n_actions):
            if matches[row, action] >= 0:
                matched[action, matches[row, action]] += 1


@njit()
def write_rows(batch, row, rule, buffers, buckets, queue, queued, tick, next_entry_id, slots, added):
    """Write the rows of a batch from `row` on. Returns the row that needs a longer eviction queue, or their number.

    batch: `Experience`; rule: `Rule`; buffers: `BufferArrays`; added: which rows became new entries; slots: where the
    state of each row is to be kept, -1 where the one that is there stays.
    """
    for i in range(row):
        next_entry_id += added[i]
    while row < len(batch.actions):
        action, ret = batch.actions[row], batch.returns[row]
        keys = buffers.keys[action]
        slot = find_slot(buckets[action], keys, batch.keys[row])
        if slot >= 0:
            if replaces_value(ret, buffers.values[action, slot], rule):
                buffers.values[action, slot] = new_value(ret, np.float64(buffers.values[action, slot]), rule)
                for i in range(2):  # to assign rows, numba compiles a second's worth of errors about shapes
                    buffers.origins[action, slot, i] = batch.origins[row, i]
                buffers.files[action, slot] = 0
            # The same observation; but the network that made the state may have learned since.
            slots[row] = slot if rule.update == 2 else -1
            added[row] = False
        else:
            if buffers.sizes[action] < buffers.values.shape[1]:
                slot = buffers.sizes[action]
                buffers.sizes[action] += 1
            else:
                # The queue holds the oldest entries. Skip those whose tick has changed since it was filled.
                while True:
                    if queued[action] == 0:
                        return row
                    queued[action] -= 1
                    slot = queue[action, queued[action], 0]
                    if buffers.ticks[action, slot] == queue[action, queued[action], 1]:
                        break
                remove_slot(buckets[action], keys, slot)
            buffers.values[action, slot] = ret
            buffers.entry_ids[action, slot] = next_entry_id
            buffers.matched[action, slot] = 0
            buffers.files[action, slot] = 0
            for i in range(2):
                keys[slot, i] = batch.keys[row, i]
                buffers.origins[action, slot, i] = batch.origins[row, i]
            add_slot(buckets[action], keys, slot)
            next_entry_id += 1
            slots[row] = slot
            added[row] = True
        buffers.ticks[action, slot] = tick + row
        row += 1
    return row


@njit()
def enter_all(buckets, keys, actions, slots):
    """Add the entries in these slots to the identity tables."""
    for i in range(len(actions)):
        add_slot(buckets[actions[i]], keys[actions[i]], slots[i])
