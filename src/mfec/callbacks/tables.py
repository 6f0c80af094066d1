"""The tables of a run: a row for each game, and rows of progress."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, TextIO

from mfec.interface import Agent, Callback, Game
from mfec.run_directory import RunDirectory, RunDirectoryError


class Tables(Callback):
    """Writes `episodes.csv` and `progress.csv` in a directory, from where an earlier run there has left them."""

    def __init__(self, directory: RunDirectory | str | Path) -> None:
        self._directory = directory if isinstance(directory, RunDirectory) else RunDirectory(directory)
        self._files: list[TextIO] = []
        self._columns: list[str] = []  # of progress

    def on_start(self, agent: Agent, total_frames: int) -> None:
        """Open the tables."""
        self._directory.create_tables()
        self._files = [file.open("a", buffering=1) for file in self._of_directory()]
        self._columns = []

    def on_game(self, agent: Agent, game: Game) -> None:
        """Add a row to `episodes.csv`."""
        self._append(0, [game.frames, game.episode, repr(game.score), game.length_frames])

    def on_progress(self, agent: Agent, row: dict[str, Any]) -> None:
        """Add a row to `progress.csv`."""
        if not self._columns:
            self._columns = self._directory.progress_columns(list(row))
            self._files[1].close()
            self._files[1] = self._directory.progress_file.open("a", buffering=1)
        self._append(1, [row.get(name) for name in self._columns])

    def flush(self) -> None:
        """Bring the games to the disk."""
        self._files[0].flush()
        os.fsync(self._files[0].fileno())

    def close(self) -> None:
        """Close the tables."""
        for file in self._files:
            with contextlib.suppress(OSError):  # a full disk was reported when the row was written
                file.close()

    def _of_directory(self) -> tuple[Path, Path]:
        return self._directory.episodes_file, self._directory.progress_file

    def _append(self, table: int, cells: list[Any]) -> None:
        try:
            self._files[table].write(",".join("" if cell is None else str(cell) for cell in cells) + "\n")
        except OSError as error:
            raise RunDirectoryError(
                f"cannot write to {self._of_directory()[table]}: {error}; --resume goes on from the last checkpoint"
            ) from None
