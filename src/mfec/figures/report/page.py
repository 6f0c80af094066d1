"""The page of a report: one file that needs no other, runs no script and asks no network."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata, resources
from pathlib import Path

from mfec import __version__
from mfec.figures import ScoreName
from mfec.figures.grids import Grid
from mfec.figures.lines import FigureError, Line, count, settings_of
from mfec.figures.report import MAX_VIDEO_MB, TITLE
from mfec.figures.report.html import Html, element, together
from mfec.figures.report.pictures import table
from mfec.figures.report.read_once import ReadOnce
from mfec.figures.report.runs import describe, in_short
from mfec.figures.report.sections import Section, exact_matches, learning_curves, neighbours, scores
from mfec.figures.report.selection import Selection, select
from mfec.figures.report.videos import Videos
from mfec.figures.scores import frames_reached
from mfec.files import check_writable, write_whole
from mfec.run_directory import RunDirectory

ABOUT = (
    "What was learned by episodic control (Blundell et al., 2016) and by the algorithms beside it, with the settings "
    "and commands that repeat it. Scores are those of whole games, unclipped; frames are the emulator's."
)
FEW = 10  # lines of which all is shown at once
PACKAGES = ("numpy", "matplotlib", "gymnasium", "ale-py", "torch")


def write_report(
    runs: Sequence[RunDirectory],
    out: Path,
    *,
    title: str = TITLE,
    max_video_mb: float = MAX_VIDEO_MB,
    score: ScoreName = "training",
) -> Path:
    """Write the report of these runs; videos are in it up to so many megabytes together."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise FigureError(f"cannot write {out}: a report ends in .html")
    check_writable(out)
    videos = Videos(max_video_mb)
    selection = select([ReadOnce(run.path) for run in runs], score=score)
    sections = [
        learning_curves(selection),
        neighbours(selection),
        exact_matches(selection),
        scores(selection),
        Section("runs", "Runs", _runs(selection, videos)),
        Section("versions", "Versions", _versions()),
    ]
    page = _page(title, together([_header(title, selection, sections), *map(_section, sections)]))
    # A name that is no text, as a file may have, is written with its bytes in words.
    write_whole(out, page.encode("utf-8", "backslashreplace"))
    return out


def _page(title: str, body: Html) -> str:
    style = (resources.files("mfec.figures.report") / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Nothing but this style sheet, and pictures and videos that are in the page.
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; media-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"mfec {__version__}"),
        element("link", rel="icon", href="data:,"),  # else a browser asks a server for one
        element("title", title),
        element("style", Html(style)),
    )
    return "<!doctype html>\n" + element("html", head, element("body", element("main", body)), lang="en") + "\n"


def _header(title: str, selection: Selection, sections: Sequence[Section]) -> Html:
    now = datetime.now(UTC)
    runs = [run for line in selection.lines for run in line.runs]
    envs = list(dict.fromkeys(line.title for line in selection.lines))
    facts = {
        "Runs": str(len(runs)),
        "Environments": ", ".join(envs),
        "Algorithms": "; ".join(dict.fromkeys(line.label for line in selection.lines)),
        "Games": f"{sum(len(run.episodes()['frames']) for run in runs):,}",
        "Frames": f"{sum(map(frames_reached, runs)):,}",
        "Drawn": element("time", f"{now:%Y-%m-%d %H:%M} UTC", datetime=f"{now:%Y-%m-%dT%H:%MZ}"),
    }
    links = (element("li", element("a", section.title, href=f"#{section.name}")) for section in sections)
    return element(
        "header",
        element("h1", title),
        element("p", ABOUT),
        element("dl", *(element("div", element("dt", name), element("dd", fact)) for name, fact in facts.items())),
        element("nav", element("ul", *links), aria_label="Contents"),
    )


def _section(section: Section) -> Html:
    name = f"{section.name}-title"
    return element(
        "section",
        element("h2", section.title, id=name),
        section.content,
        id=section.name,
        aria_labelledby=name,
    )


def _runs(selection: Selection, videos: Videos) -> Html:
    """Every line, environment by environment."""
    parts = [_left_out(selection)]
    lines_with_video = _with_video(selection)
    few = len(selection.lines) <= FEW
    for env in dict.fromkeys(line.env for line in selection.lines):
        own = [line for line in selection.lines if line.env == env]
        parts.append(element("h3", own[0].title))
        for line in own:
            k = f", k = {settings_of(line.config)['k']}" if selection.several_k(line) else ""
            short = element("span", in_short(line, selection.score))
            title = element("summary", element("h4", line.label + k), " ", short)
            video = videos.of(line) if line in lines_with_video else Html()
            parts.append(element("details", title, video, describe(line, selection.score), class_="line", open=few))
    return together(parts)


def _with_video(selection: Selection) -> list[Line]:
    """One line for each environment, algorithm and embedding: the one in Figure 1, else the first that has a video."""
    chosen: dict[tuple[str, str], Line] = {}
    for line in [*selection.curves, *selection.lines]:
        if any(run.video.is_file() for run in line.runs):
            chosen.setdefault((line.env, line.label), line)
    for line in [*selection.curves, *selection.lines]:
        chosen.setdefault((line.env, line.label), line)
    return list(chosen.values())


def _left_out(selection: Selection) -> Html:
    """Runs that are not in the figures, and why."""
    repeated = [
        together([element("code", str(run.path)), " is the same as ", element("code", str(same.path))])
        for run, same in selection.repeated
    ]
    waiting = [element("code", str(run.path)) for run in selection.waiting]
    return together(
        element("details", element("summary", f"{why}: {count(len(runs), 'run')}"), _list(runs))
        for why, runs in (
            (f"Left out, as another of the same seed and settings {selection.score.furthest}", repeated),
            (selection.score.waiting, waiting),
        )
        if runs
    )


def _list(items: Sequence[Html]) -> Html:
    return element("ul", *(element("li", item) for item in items))


def _versions() -> Html:
    """Those on the machine that drew the report."""
    rows: list[tuple[str, ...]] = [("mfec", __version__), ("Python", platform.python_version())]
    for package in PACKAGES:
        try:
            rows.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            rows.append((package, "not installed"))
    rows.append(("platform", platform.platform()))
    grid = Grid("Where this report was drawn", ("what", "version"), [rows], names=1)
    return table(grid, texts=("version",))
