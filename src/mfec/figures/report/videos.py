"""Videos inside the page: one for each environment and algorithm, as far as there is room."""

from __future__ import annotations

import math
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mfec.figures.lines import Line
from mfec.figures.report.html import Html, data_uri, element, together
from mfec.run_directory import RunDirectory

MEGABYTE = 1_000_000
POSTER_OF = (
    150  # frames that the poster is chosen from; with all of a long game, ffmpeg would hold hundreds of megabytes
)
POSTER_WIDTH = 480  # pixels at most; as JPEG 10 to 30 kB
PATIENCE = 30  # seconds that ffmpeg may take; it takes a tenth of one


class Videos:
    """Gives out videos until so many megabytes of them are in the page."""

    def __init__(self, max_mb: float) -> None:
        if not 0.0 <= max_mb < math.inf:
            raise ValueError(f"max_video_mb must be a number of megabytes, at least 0, not {max_mb}")
        self._max_mb = max_mb
        self._bytes_left = max_mb * MEGABYTE

    def of(self, line: Line) -> Html:
        """The video of the first run that has one, or a sentence why there is none."""
        filmed = [run for run in line.runs if run.video.is_file()]
        if not filmed:
            return _how_to_film(line.runs)
        run = filmed[0]
        size = run.video.stat().st_size
        said = together([element("code", str(run.video)), f" ({_megabytes(size)})"])
        if size > self._bytes_left:
            limit = f"it would bring the videos of this page above {self._max_mb:g} MB (--max-video-mb)."
            return element("p", "The video ", said, f" is left out: {limit}", class_="note")
        content = run.video.read_bytes()
        if not _is_whole(content):
            return element("p", "The video ", said, " is left out: it is no whole MP4.", class_="note")
        self._bytes_left -= size
        return _player(line, run, content, said)


def _poster(file: Path) -> bytes:
    """A picture of the game as JPEG: of its first seconds, the frame most like all others; empty without ffmpeg.

    Before it plays, a browser shows the first frame at best, which is black in some games, and phones show none.
    """
    try:
        import imageio_ffmpeg

        ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(file.resolve())]
        one = ["-vf", f"thumbnail={POSTER_OF},scale='min({POSTER_WIDTH},iw)':-2", "-frames:v", "1", "-q:v", "4"]
        jpeg = ["-f", "image2pipe", "-c:v", "mjpeg", "-"]
        made = subprocess.run([*ffmpeg, *one, *jpeg], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    except (ImportError, OSError, RuntimeError, subprocess.TimeoutExpired):
        return b""
    return made.stdout if made.returncode == 0 else b""


def _player(line: Line, run: RunDirectory, content: bytes, said: Html) -> Html:
    what = f"{line.title}: one game of {line.label}, seed {run.read_config().seed}, after training"
    other = f"This browser plays no MP4. {what}."
    poster = _poster(run.video)
    video = element(
        "video",
        other,
        src=data_uri("video/mp4", content),
        poster=data_uri("image/jpeg", poster) if poster else "",
        controls=True,
        playsinline=True,
        preload="metadata",
        aria_label=what,
    )
    return element("figure", video, element("figcaption", f"{what}. ", said), class_="video")


def _how_to_film(runs: Sequence[RunDirectory]) -> Html:
    """How to make a video, where there is an agent to film."""
    for run in runs:
        if run.has_checkpoint:
            film = ["mfec", "evaluate", str(run.path), "--episodes", "1", "--video", str(run.video)]
            return element("p", "There is no video; ", element("code", shlex.join(film)), " makes one.", class_="note")
    return Html()


def _is_whole(content: bytes) -> bool:
    """Whether this is an MP4 that was finished: its index is written last."""
    return content[4:8] == b"ftyp" and b"moov" in content


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.1f} MB" if size >= MEGABYTE else f"{math.ceil(size / 1000)} kB"
