"""The loops of the episodic memory over actions, neighbours and steps, compiled."""

from __future__ import annotations

import numpy as np

from mfec.compiling import njit
from mfec.memory.identities import add_slot, find_slot, remove_slot

DELTA = 1e-3  # of Neural Episodic Control (Pritzel et al., 2017): keeps a neighbour at no distance from deciding alone


@njit()
def average(stored, matches, neighbours, squared, few, kernel, values):
    """Values of exact matches, and means of neighbours elsewhere (Eq. 2), weighted as `kernel` says.

    `few` is a place in FEW_NEIGHBOURS, `kernel` one in KERNELS.
    """
    n, n_actions, k = neighbours.shape
    for row in range(n):
        for action in range(n_actions):
            if matches[row, action] >= 0:
                values[row, action] = stored[action, matches[row, action]]
                continue
            total = 0.0
            whole = 0.0
            found = 0
            for i in range(k):
                if neighbours[row, action, i] >= 0:
                    own = weight(squared[row, action, i], kernel)
                    total += own * stored[action, neighbours[row, action, i]]
                    whole += own
                    found += 1
            if has_mean(found, k, few):
                values[row, action] = total / whole
            else:
                values[row, action] = 0.0 if few == 2 else np.inf


@njit()
def weight(squared, kernel):
    """What a neighbour at this squared distance counts, beside others; `kernel` is a place in KERNELS."""
    return 1.0 if kernel == 0 else 1.0 / (squared + DELTA)


@njit()
def shares(squared, kernel):
    """The weights of all neighbours behind one value, float64 (m,), which sum to 1."""
    weights = np.empty(len(squared))
    for i in range(len(squared)):
        weights[i] = weight(squared[i], kernel)
    return weights / weights.sum()


@njit()
def has_mean(found, k, few):
    """Whether so many neighbours make a mean, or are too few for one."""
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
    """One more look-up of each entry that was matched."""
    n, n_actions = matches.shape
    for row in range(n):
        for action in range(n_actions):
            if matches[row, action] >= 0:
                matched[action, matches[row, action]] += 1


@njit()
def write_rows(
    actions, returns, batch_keys, batch_origins, row, keep_highest,
    sizes, values, entry_ids, ticks, keys, origins, matched,
    cells, queue, queued, tick, next_entry_id, slots,
):  # fmt: skip
    """Write rows from `row` on; return the row that needs a refilled eviction queue, or the number of rows."""
    for before in range(row):
        if slots[before] >= 0:
            next_entry_id += 1
    while row < len(actions):
        action = actions[row]
        slot = find_slot(cells[action], keys[action], batch_keys[row])
        if slot >= 0:
            if not keep_highest or returns[row] > values[action, slot]:
                values[action, slot] = returns[row]
                origins[action, slot] = batch_origins[row]
            slots[row] = -1
        else:
            if sizes[action] < values.shape[1]:
                slot = sizes[action]
                sizes[action] += 1
            else:
                # The queue holds the oldest entries; one touched since it was made is no longer among them.
                while True:
                    if queued[action] == 0:
                        return row
                    queued[action] -= 1
                    slot = queue[action, queued[action], 0]
                    if ticks[action, slot] == queue[action, queued[action], 1]:
                        break
                remove_slot(cells[action], keys[action], slot)
            values[action, slot] = returns[row]
            entry_ids[action, slot] = next_entry_id
            keys[action, slot] = batch_keys[row]
            origins[action, slot] = batch_origins[row]
            matched[action, slot] = 0
            add_slot(cells[action], keys[action], slot)
            next_entry_id += 1
            slots[row] = slot
        ticks[action, slot] = tick + row
        row += 1
    return row


@njit()
def enter_all(cells, keys, actions, slots):
    """Enter the entries in these slots into the identity tables."""
    for i in range(len(actions)):
        add_slot(cells[actions[i]], keys[actions[i]], slots[i])
