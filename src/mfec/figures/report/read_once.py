"""Runs whose files are read once: each figure of a report asks for the same tables again."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from mfec.algorithms import RunConfig
from mfec.figures.match_rates import COLUMNS
from mfec.run_directory import RunDirectory

OF_EPISODES = ("frames", "return")
OF_PROGRESS = ("frames", *COLUMNS.values())


class ReadOnce(RunDirectory):
    """A run that keeps its settings, and of its tables what figures draw: a report of all of the paper's figures is of
    some 400 runs, and they stay in a few hundred megabytes."""

    def read_config(self) -> RunConfig:
        """The settings of the run."""
        return self._config

    def episodes(self) -> dict[str, list[float]]:
        """When games ended, and their scores."""
        return self._episodes

    def progress(self) -> dict[str, list[float]]:
        """Shares of exact matches."""
        return self._progress

    def evaluations(self) -> dict[str, list[float]]:
        """The table of evaluations, which is short."""
        return self._evaluations

    @cached_property
    def _config(self) -> RunConfig:
        return super().read_config()

    @cached_property
    def _episodes(self) -> dict[str, list[float]]:
        return _only(super().episodes(), OF_EPISODES)

    @cached_property
    def _progress(self) -> dict[str, list[float]]:
        return _only(super().progress(), OF_PROGRESS)

    @cached_property
    def _evaluations(self) -> dict[str, list[float]]:
        return super().evaluations()


def _only(table: dict[str, list[float]], names: Collection[str]) -> dict[str, list[float]]:
    return {name: column for name, column in table.items() if name in names}
