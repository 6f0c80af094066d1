"""Files to which records of steps are added at the end, and nothing else ever happens.

A record tells some steps of one episode. Whatever stopped the program, a file holds whole records up to a point, and
`scan` ends there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

FIELDS = struct.Struct("<4siiiqiiBII")
SUM = struct.Struct("<I")  # of the fields
HEADER_BYTES = FIELDS.size + SUM.size
MAGIC = b"mfec"


@dataclass(frozen=True)
class Record:
    """Some steps of an episode; what is told of them stands behind it in the file."""

    episode: int  # number of the game, from 1, as they began
    lane: int
    game: int  # how many games the lane had begun before; -1 where games cannot be brought back
    begun: int  # frames of the run when the episode began
    first: int  # number of the first of these steps in the episode, from 0
    count: int
    ended: bool  # the last of them ended the episode

    @property
    def end(self) -> int:
        """The number of the step after the last of these."""
        return self.first + self.count


@dataclass(frozen=True)
class Place:
    """Where the bytes of a record stand."""

    file: Path
    offset: int
    length: int
    checksum: int

    def read(self) -> bytes:
        """The bytes; a ValueError if they are not those that were written."""
        with self.file.open("rb") as stream:
            stream.seek(self.offset)
            content = stream.read(self.length)
        if len(content) != self.length or zlib.crc32(content) != self.checksum:
            raise ValueError(f"{self.file} is damaged at byte {self.offset}")
        return content


def append(stream: BinaryIO, record: Record, content: bytes) -> int:
    """Add a record to the end of a file; returns how many bytes that took."""
    own = (record.episode, record.lane, record.game, record.begun, record.first, record.count, record.ended)
    fields = FIELDS.pack(MAGIC, *own, len(content), zlib.crc32(content))
    stream.write(fields + SUM.pack(zlib.crc32(fields)) + content)
    return HEADER_BYTES + len(content)


def scan(file: Path) -> Iterator[tuple[Record, Place]]:
    """The whole records of a file, in order; it ends before anything that is none."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        offset = HEADER_BYTES
        while offset <= size:
            fields = stream.read(FIELDS.size)
            magic, episode, lane, game, begun, first, count, ended, length, checksum = FIELDS.unpack(fields)
            whole = SUM.unpack(stream.read(SUM.size)) == (zlib.crc32(fields),)
            if magic != MAGIC or not whole or offset + length > size:
                return
            record = Record(episode, lane, game, begun, first, count, bool(ended))
            yield record, Place(file, offset, length, checksum)
            stream.seek(length, 1)
            offset += length + HEADER_BYTES


def cut(file: Path, keep: int) -> None:
    """Drop all but the first `keep` records."""
    end = 0
    for number, (_, place) in enumerate(scan(file)):
        if number == keep:
            break
        end = place.offset + place.length
    with file.open("r+b") as stream:
        stream.truncate(end)
