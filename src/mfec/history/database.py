"""The database of past episodes: one SQLite file in the directory `history` of a run.

SQLite's own journal makes it hold whole transactions, whatever stopped the program. It is the plain journal, not the
write-ahead log, which does not work where a run directory is shared between machines.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

SCHEMA = """
-- environment: which environment; game: how many games it had begun before, -1 where games cannot be brought back;
-- begun: frames of the run when the episode began.
CREATE TABLE IF NOT EXISTS episodes (number INTEGER PRIMARY KEY, environment INTEGER, game INTEGER, begun INTEGER);

-- Some steps of an episode, from step `first` (counted from 0) on.
CREATE TABLE IF NOT EXISTS steps (episode INTEGER, first INTEGER, count INTEGER, ended INTEGER, content BLOB);
CREATE TABLE IF NOT EXISTS frames (episode INTEGER, first INTEGER, count INTEGER, nbytes INTEGER, content BLOB);
CREATE INDEX IF NOT EXISTS steps_by_episode ON steps (episode, first);
CREATE INDEX IF NOT EXISTS frames_by_episode ON frames (episode, first, count, nbytes);
"""

PAGE_BYTES = 1024  # 32 frames of Atari take about 4,300 bytes: pages of 4,096 made the file an eighth larger
PATIENCE = 60.0  # seconds to wait for the other side: an inspector reads while a run writes


def database_file(directory: Path) -> Path:
    """The file in the directory of a history."""
    return directory / "episodes.sqlite"


def open_database(file: Path | str) -> sqlite3.Connection:
    """Open the database, or make an empty one; several threads may use it in turn."""
    database = sqlite3.connect(file, timeout=PATIENCE, check_same_thread=False)
    database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    return database
