"""Why an agent values actions as it does: the memories behind each value, as data and as a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfec.html_table import html_table
from mfec.memory import Evidence

COLUMNS = ("action", "value", "comes from", "memory", "weight", "distance", "episode", "frame", "matched")
SOURCE = COLUMNS.index("comes from")  # the one column of words
NOTE = "* highest value; memory: its value; weight: its share"
OF_MATCHES = "; matched: how often exactly this state came again"


@dataclass(frozen=True)
class Explanation:
    """The values of all actions in one state, each with the memories that it comes from.

    Attributes:
        actions: one `Evidence` for each action: its value, what that comes from, and its neighbours.
        first_action: the number of the first one, as the environment counts.
        matches: whether the memory matches states exactly; the table counts how often where it does.

    `print` shows it as a table, one line for each memory, and so does a notebook.
    """

    actions: tuple[Evidence, ...]
    first_action: int = 0
    matches: bool = True

    @property
    def values(self) -> NDArray[np.float32]:
        """The value of every action, float32 (n_actions,); infinity stands for an action that is to be tried."""
        return np.array([evidence.value for evidence in self.actions], np.float32)

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Which values are exact matches, bool (n_actions,)."""
        return np.array([evidence.exact for evidence in self.actions])

    @property
    def highest(self) -> list[int]:
        """The actions of the highest value, from 0; the agent takes one of them unless it explores."""
        return np.flatnonzero(self.values == self.values.max()).tolist()

    def __str__(self) -> str:
        rows = [self._columns, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) if i == SOURCE else text.rjust(width) for i, (text, width) in enumerate(cells)
            ).rstrip()
            for cells in (zip(row, widths, strict=True) for row in rows)
        ]
        return "\n".join([*lines, self._note])

    def _repr_html_(self) -> str:
        rows = self._rows()
        highest = {number: (0, 1, SOURCE) for number, row in enumerate(rows) if row[0].startswith("*")}
        return html_table(self._columns, rows, note=self._note, words=[SOURCE], strong=highest)

    @property
    def _columns(self) -> tuple[str, ...]:
        return COLUMNS if self.matches else COLUMNS[:-1]

    @property
    def _note(self) -> str:
        return NOTE + OF_MATCHES if self.matches else NOTE

    def _rows(self) -> list[tuple[str, ...]]:
        """One for each memory; the first of an action says what the action is worth."""
        rows: list[tuple[str, ...]] = []
        for action, evidence in enumerate(self.actions):
            mark = "* " if action in self.highest else ""
            head = (f"{mark}{self.first_action + action}", _number(evidence.value), _source(evidence))
            memories = _memories(evidence) or [("-",) * 6]
            lines = [(*(head if line == 0 else ("",) * 3), *memory) for line, memory in enumerate(memories)]
            rows += [line[: len(self._columns)] for line in lines]
        return rows


def _source(evidence: Evidence) -> str:
    found = len(evidence.neighbours.values)
    return {
        "exact": "exact match",
        "mean": f"mean of {found}",
        "weighted_mean": f"weighted mean of {found}",
        "infinity": "not tried enough",
        "zero": "too few, so 0",
    }[evidence.source]


def _memories(evidence: Evidence) -> list[tuple[str, ...]]:
    near = evidence.neighbours
    return [
        (
            _number(value),
            f"{weight:.3g}",
            f"{distance:.4g}",
            *("-" if part < 0 else str(part) for part in origin),
            str(matched),
        )
        for value, weight, distance, origin, matched in zip(
            near.values.tolist(),
            evidence.weights.tolist(),
            near.distances.tolist(),
            near.origins.tolist(),
            near.matched.tolist(),
            strict=True,
        )
    ]


def _number(value: float) -> str:
    return f"{value:,.6g}"
