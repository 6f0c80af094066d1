"""One game as one file: the inspector's page with all of its data inside, to send to somebody."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mfec.errors import MfecError
from mfec.files import check_writable, write_whole
from mfec.inspector import MAX_MB
from mfec.inspector.api import (
    GAME,
    OBSERVATIONS,
    PAST,
    PAST_FRAMES,
    PICTURES,
    RUN,
    STEP,
    Endpoint,
    as_json,
    title_of,
)
from mfec.inspector.document import page_document
from mfec.inspector.export_data import MEMORIES, Memories, RecordedResponses, as_text, cost, in_base64
from mfec.inspector.export_frames import FrameBudget, MemoryCount, PastFrames, Place, cut, most_important
from mfec.inspector.inspection import Inspection, NotThere

PICTURES_SHARE = 0.2  # of the file, at most, for pictures in colour; the agent has seen none of their colours
PAST_BYTES = 1_500  # that an episode's actions and rewards take
MOST_REPLAYED = 500  # episodes; a game of Q*bert takes a third of a second to play again
# Pictures of past episodes that were numbers to the agent: to draw one takes CartPole 1.5 ms, box2d 4. Fewer where the
# cards show the numbers themselves.
MOST_DRAWN, MOST_DRAWN_BESIDE_NUMBERS = 5_000, 1_000
NUMBERS_SHARE = 0.5  # of what is free, at most, for the numbers of past episodes

Tell = Callable[[str, int, int], None]  # what is being done, how much of it, of how much


class ExportError(MfecError):
    """A page that cannot be written as asked."""


@dataclass(frozen=True)
class Exported:
    """A file, and what is not in it."""

    file: Path
    nbytes: int
    left_out: list[str]  # to keep it small, in words
    not_made: list[str]  # as it would have taken too long, in words


def check_export(out: Path, max_mb: float) -> None:
    """Refuse what no page can be written to, before a game is played for it."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise ExportError(f"cannot write {out}: a page ends in .html")
    if not out.parent.is_dir():
        raise ExportError(f"cannot write {out}: there is no directory {out.parent}")
    check_writable(out)
    if not max_mb > 0:
        raise ExportError(f"a page of {max_mb:g} megabytes cannot be: --max-mb must be above 0")


def export_game(
    inspection: Inspection, game: int, out: Path, *, max_mb: float = MAX_MB, tell: Tell = lambda *_: None
) -> Exported:
    """Write the page of a game that is being played or over; at most so many megabytes (10^6 bytes).

    What does not fit is left out: pictures in colour first, then frames of the memories that had the least to say.
    """
    check_export(out, max_mb)
    inspection.finish(game)
    page = _Page(inspection, game, max_mb, tell)
    html = page.write()
    write_whole(out, html)
    return Exported(out, len(html), page.left_out, page.not_made)


class _Page:
    """What goes into the page of one game, and what does not."""

    def __init__(self, inspection: Inspection, game: int, max_mb: float, tell: Tell) -> None:
        self.left_out: list[str] = []
        self.not_made: list[str] = []
        self._inspection = inspection
        self._number = game
        self._most = int(max_mb * 10**6)
        self._tell = tell
        run = inspection.run()
        name = Path(run["directory"]).resolve().name  # where it lies on this machine is nobody's business
        self._run: dict[str, Any] = {**run, "directory": name, "live": False, "recorded_games": 1}
        self._game: dict[str, Any] = inspection.game(game)
        self._title = title_of(self._run)
        self._recorded = RecordedResponses()
        self._fixed = len(self._html(b"")) + in_base64(len(zlib.compress(as_json(self._run)))) + 2_000  # to be safe
        self._as_numbers = self._game["cards"] == "numbers"
        self._drew_all = True
        self._memories = MemoryCount(frame_skip=int(self._run["frame_skip"]))

    def write(self) -> bytes:
        """The page."""
        self._add_steps()
        self._add_pictures()
        self._add_past()
        for why, what in (("keep this file small", self.left_out), ("write this file soon", self.not_made)):
            if what:
                self._run["frames_note"] += f" To {why}: {'; '.join(what)}."
        self._recorded.add(RUN.at(), as_json(self._run))
        return self._html(self._recorded.finish())

    @property
    def _free(self) -> int:
        return self._most - self._fixed - self._recorded.nbytes

    def _html(self, recorded: bytes) -> bytes:
        html, _ = page_document(title=self._title, recorded=recorded)
        return html.encode("utf-8", "backslashreplace")

    def _add_steps(self) -> None:
        steps, memories = int(self._game["steps"]), Memories(weighted=self._run["kernel"] != "mean")
        for step in range(steps):
            data = self._inspection.step(self._number, step)
            self._memories.count(data)
            self._recorded.add(STEP.at(0, step), as_json(memories.shorten(data)))
            self._tell("steps", step + 1, steps)
        self._recorded.add(MEMORIES, memories.as_json())
        self._refuse_overflow(self._free)

    def _refuse_overflow(self, free: int) -> None:
        if free < 0:
            needed = math.ceil((self._most - free) / 10**5) / 10
            raise ExportError(
                f"the {self._game['steps']:,} steps of this game take {needed:,.1f} MB without any frame of its "
                f"memories, so that --max-mb {self._most / 10**6:g} is too little"
            )

    def _add_pictures(self) -> None:
        """The game's own: what the agent saw, and what people see if that is not too much."""
        game = {**self._game, "game": 0}
        free = self._free - PAST_BYTES * len(self._memories.episodes())
        seen = self._chunks(OBSERVATIONS, "observation", free)
        most = free - cost(seen)
        drawn = self._chunks(PICTURES, "picture", min(most, int(PICTURES_SHARE * self._most)) if seen else most)
        for name, chunks, words in (("observation", seen, "what the agent saw"), ("picture", drawn, "colours")):
            if game[name] is not None and not chunks:
                game[name] = None
                self.left_out.append(f"{words} left out of the game's pictures")
        self._recorded.add(GAME.at(0), as_json(game))
        for endpoint, chunks in ((OBSERVATIONS, seen), (PICTURES, drawn)):
            for chunk, data in enumerate(chunks):
                self._recorded.add(endpoint.at(0, chunk), as_text(data))

    def _chunks(self, endpoint: Endpoint, name: str, most: int) -> list[bytes]:
        """All of a kind of the game's pictures; none where they would take more than so many bytes."""
        if self._game[name] is None:
            return []
        chunks: list[bytes] = []
        for chunk in range(-(-int(self._game["steps"]) // int(self._game[name]["per_chunk"]))):
            data = endpoint.read(self._inspection, self._number, chunk)
            assert isinstance(data, bytes)
            chunks.append(data)
            most -= cost([data])
            if most < 0:
                return []
        return chunks

    def _add_past(self) -> None:
        """Episodes that memories come from, and of their frames those that matter most, as many as fit.

        Episode by episode, since one whose frames were not kept is played again when it is first asked for, and not
        many are remembered.
        """
        pasts: dict[int, dict[str, Any]] = {}
        drawn: dict[int, PastFrames] = {}
        budget, replayed, without_numbers = FrameBudget(self._free), 0, 0
        least = budget.left * (1.0 - NUMBERS_SHARE)
        episodes = self._memories.episodes()
        for done, episode in enumerate(episodes):
            self._tell("episodes", done, len(episodes))
            if replayed == MOST_REPLAYED:
                self.not_made.append(f"{len(episodes) - done:,} episodes that would have to be played again left out")
                break
            try:
                past = PastFrames(self._inspection, episode, one_by_one=not self._as_numbers)
            except NotThere:  # it was not written down, and the page says so
                continue
            pasts[episode] = past.about
            replayed += past.about["source"] == "recreated"
            nbytes = _nbytes(past.about)
            if past.about["numbers"] is not None and budget.left - nbytes < least:
                past.about["numbers"] = None
                without_numbers += 1
                nbytes = _nbytes(past.about)
            budget.shrink(nbytes)
            if past.drawn:
                drawn[episode] = past
            else:
                for chunk, weight in self._memories.chunks(past.about).items():
                    data = past.chunk(chunk) if budget.takes(weight) else None
                    if data is not None:
                        budget.put((episode, chunk), weight, data, cost([data]))
        if without_numbers:
            self.left_out.append(f"numbers of {without_numbers:,} past episodes left out")
        self._draw_frames(budget, drawn)
        self._refuse_overflow(budget.left)
        chunks = budget.chunks()
        self._say_missing(pasts, chunks, full=budget.full)
        for episode, about in pasts.items():
            own = [chunk for other, chunk in chunks if other == episode]
            self._recorded.add(PAST.at(episode), as_json(cut(about, own)))
        for place, data in chunks.items():
            self._recorded.add(PAST_FRAMES.at(*place), as_text(data))

    def _draw_frames(self, budget: FrameBudget, pasts: dict[int, PastFrames]) -> None:
        """Draw the pictures that matter most, and put them in: to draw all of some hundred games would take minutes."""
        if not pasts:
            return
        weights = {episode: self._memories.chunks(past.about) for episode, past in pasts.items()}
        per_chunk = max(int(past.about["picture"]["per_chunk"]) for past in pasts.values())
        most = MOST_DRAWN_BESIDE_NUMBERS if self._as_numbers else MOST_DRAWN
        chosen = most_important(weights, max(1, most // per_chunk))
        for done, (episode, chunks) in enumerate(chosen.items()):
            self._tell("pictures of episodes", done, len(chosen))
            for chunk, data in pasts[episode].draw(chunks).items():
                budget.put((episode, chunk), weights[episode][chunk], data, cost([data]))
        self._drew_all = sum(map(len, chosen.values())) == sum(map(len, weights.values()))

    def _say_missing(self, pasts: dict[int, dict[str, Any]], chunks: dict[Place, bytes], *, full: bool) -> None:
        there = missing = 0
        for episode, past in pasts.items():
            for step in self._memories.memories(past):
                there += 1
                missing += (episode, step // int(past["picture"]["per_chunk"])) not in chunks
        if missing or full or not self._drew_all:
            whose = f"of {missing:,} of {there:,} memories" if missing else "that came after some of the memories"
            (self.left_out if full or self._drew_all else self.not_made).append(f"frames {whose} left out")


def _nbytes(past: dict[str, Any]) -> int:
    """Bytes that an episode takes without its frames."""
    return in_base64(len(zlib.compress(as_json(past))) + 90)
