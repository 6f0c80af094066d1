"""The report in a real browser: it asks for nothing, shows everything, and fits every window."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mfec.cli import main
from mfec.figures.figure1 import draw_figure1
from mfec.run_directory import find_runs

from ..browser import Watched, let_draw, wait_for, watch
from .run_files import baseline, mfec, vae, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "<img src=x onerror=alert(1)>"
FOLDER = """a "quoted" & <b>bold</b> 'folder'"""


def film(path: Path, *, frames: int = 20) -> None:
    """A real video of a square that moves, as `mfec train` writes them."""
    import imageio_ffmpeg

    writer = imageio_ffmpeg.write_frames(str(path), (160, 120), fps=20, macro_block_size=2)
    writer.send(None)
    for place in range(frames):
        picture = np.zeros((120, 160, 3), np.uint8)
        picture[40:80, 4 * place : 4 * place + 40] = 255
        writer.send(picture)
    writer.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs for all figures, some with names that are HTML, one with a video."""
    path = tmp_path_factory.mktemp("runs")
    games = [(end, end / 1000) for end in range(10_000, 1_200_000, 10_000)]
    progress = [
        {"frames": end, "exact_match_rate": 0.25, "exact_match_rate_chosen": 0.5} for end in (990_000, 1_190_000)
    ]
    for seed in range(2):
        write_run(path / FOLDER / f"seed-{seed}", mfec("qbert", seed=seed), games, progress)
        for k in (1, 11):
            write_run(path / f"k-{k}" / f"seed-{seed}", vae("qbert", seed=seed, k=k), games, progress)
    write_run(path / "dqn", baseline("dqn", "frostbite"), games)
    write_run(path / "hostile", mfec(HOSTILE, embedding="vae", vae=HOSTILE), games, progress)
    write_run(path / "long", mfec("Environment" * 5), games, progress)
    film(path / FOLDER / "seed-0" / "video.mp4")
    return path


@pytest.fixture(scope="module")
def report(runs: Path) -> Path:
    out = runs.parent / "report.html"
    assert main(["report", str(runs), "--out", str(out), "--title", f"A report {HOSTILE}"]) == 0
    return out


@pytest.fixture(scope="module")
def opened(browser: Browser, report: Path) -> Watched:
    watched = watch(browser)
    watched.page.goto(report.as_uri())
    return watched


@pytest.fixture
def own(browser: Browser, report: Path) -> Iterator[Watched]:
    """The page in a window of one test's own, which may change it."""
    watched = watch(browser)
    watched.page.goto(report.as_uri())
    yield watched
    watched.page.context.close()


def test_it_asks_for_nothing_and_complains_of_nothing(opened, report):
    others = [url for url in opened.requests if not url.startswith("data:")]
    assert others == [report.as_uri()]
    assert opened.complaints == []
    assert opened.page.locator("script").count() == 0


def test_every_picture_is_drawn_and_described(opened):
    pictures = opened.page.evaluate(
        "[...document.images].map(image => [image.complete, image.naturalWidth, image.naturalHeight, image.alt])"
    )
    assert len(pictures) == 3
    for complete, wide, high, alt in pictures:
        assert complete
        assert min(wide, high) > 100
        assert len(alt) > 30


def test_the_video_is_h264_and_plays(opened, runs):
    assert b"avc1" in (runs / FOLDER / "seed-0" / "video.mp4").read_bytes()
    video = opened.page.locator("video")
    assert video.count() == 1
    wait_for(opened.page, "document.querySelector('video').readyState > 0")
    assert video.evaluate("video => [video.videoWidth, video.videoHeight, video.duration]") == [160, 120, 1.0]
    assert "Q*bert" in video.get_attribute("aria-label")
    assert video.get_attribute("controls") is not None
    video.evaluate("video => { video.play() }")
    wait_for(opened.page, "document.querySelector('video').ended")
    assert video.evaluate("video => video.currentTime") == 1.0


def test_names_that_are_html_are_text(opened):
    page = opened.page
    assert page.title() == page.locator("h1").inner_text() == f"A report {HOSTILE}"
    assert HOSTILE in page.locator("h3").all_inner_texts()
    assert page.locator("td", has_text=f"{FOLDER}/seed-1").count() == 1
    assert page.locator(f"td:text-is('{HOSTILE}')").count() == 1  # the setting
    assert page.locator("img:not([src^='data:image/svg+xml']), source:not([srcset^='data:image/svg+xml'])").count() == 0
    assert page.locator("main b:not(figcaption b)").count() == 0


def test_what_is_slipped_into_the_page_is_refused(own):
    """The policy stops what escaping should have: scripts, requests, styles of elements."""
    own.page.evaluate(
        """async () => {
            window.broken = []
            document.addEventListener("securitypolicyviolation", event => broken.push(event.effectiveDirective))
            const put = html => document.body.insertAdjacentHTML("beforeend", html)
            put(`<img id="slipped" src="http://127.0.0.1:9/x.png" onerror="window.ran = true" style="width: 77px">`)
            put(`<iframe src="http://127.0.0.1:9/"></iframe>`)
            const script = document.createElement("script")
            script.textContent = "window.ran = true"
            document.body.append(script)
            try { await fetch("http://127.0.0.1:9/") } catch (error) {}
        }"""
    )
    wait_for(own.page, "new Set(broken).size >= 6")
    assert set(own.page.evaluate("broken")) == {
        "connect-src",
        "frame-src",
        "img-src",
        "script-src-attr",
        "script-src-elem",
        "style-src-attr",
    }
    assert own.page.evaluate("window.ran === undefined")


@pytest.mark.parametrize("width", [1280, 768, 400, 320])
def test_nothing_is_cut_off_in_any_window(own, width):
    """No page scrolls sideways, nothing is wider than its box, and what is shown of a table is all of it."""
    page = own.page
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.set_viewport_size({"width": width, "height": 800})
    let_draw(page)
    assert page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]") == [width] * 2
    sides = "boxes => boxes.map(box => box.getBoundingClientRect()).map(box => [box.left, box.right])"
    boxes = page.locator(".scrolling, picture, picture img, caption, figcaption, summary, h1, h3, .commands, video")
    found = boxes.evaluate_all(sides)
    assert len(found) > 40
    assert [box for box in found if not 0 <= box[0] < box[1] <= width] == []
    wider = "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).map(box => box.ariaLabel)"
    assert page.locator(".scrolling:has(table)").evaluate_all(wider) == []
    hidden = (
        "cells => cells.filter(cell => cell.textContent !== '' && !cell.checkVisibility()).map(cell => cell.outerHTML)"
    )
    assert page.locator("tbody th, td").evaluate_all(hidden) == []
    letters = "all => Math.min(...all.map(one => parseFloat(getComputedStyle(one).fontSize)))"
    assert page.locator("td, th, p, code, figcaption").evaluate_all(letters) >= 11.0


def test_a_narrow_window_has_figures_of_its_own(own):
    """Drawn for it: a wide one would have letters of four pixels there."""
    page = own.page
    shown = (
        "images => images.map(image => [image.currentSrc, image.getBoundingClientRect().width / image.naturalWidth])"
    )
    wide = page.locator("picture img").evaluate_all(shown)
    page.set_viewport_size({"width": 400, "height": 800})
    wait_for(page, "[...document.images].every(image => image.complete && image.naturalWidth < 350)")
    narrow = page.locator("picture img").evaluate_all(shown)
    assert len(wide) == len(narrow) == 3
    assert all(before != after for (before, _), (after, _) in zip(wide, narrow, strict=True))
    assert all(scale > 0.95 for _, scale in [*wide, *narrow])


def test_on_a_phone_numbers_say_which_column_they_are_of(own):
    page = own.page
    page.set_viewport_size({"width": 400, "height": 800})
    assert not page.locator(".list thead").first.is_visible()
    said = page.locator(".list td:not(:empty)").evaluate_all(
        "cells => cells.map(cell => getComputedStyle(cell, '::before').content)"
    )
    assert {'"published"', '"seeds"', '"directory"'} <= set(said)
    assert "none" not in said


def test_what_is_wider_than_its_box_scrolls_in_it_and_says_so(browser, runs, tmp_path):
    """As a line of settings of a hundred letters is."""
    write_run(tmp_path / "run", mfec("qbert", embedding="vae", vae="v" * 100), [(10_000, 1.0)])
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "report.html")]) == 0
    watched = watch(browser, width=400)
    watched.page.goto((tmp_path / "report.html").as_uri())
    watched.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert watched.page.evaluate("document.documentElement.scrollWidth") == 400
    box = watched.page.locator(".scrolling", has=watched.page.locator("pre"))
    assert box.evaluate("box => box.scrollWidth > box.clientWidth + 100")
    assert box.evaluate("box => getComputedStyle(box).overflowX") == "auto"
    edge = [box.screenshot(), box.evaluate("box => { box.scrollLeft = box.scrollWidth }"), box.screenshot()]
    assert edge[0] != edge[2]
    watched.page.context.close()


def test_a_video_has_a_poster_of_the_game(own):
    """The white square on black, before anything is played."""
    page = own.page
    poster = page.locator("video").get_attribute("poster")
    assert poster.startswith("data:image/jpeg;base64,")
    size, bright = page.evaluate(
        """async poster => {
            const image = new Image()
            image.src = poster
            await image.decode()
            const canvas = document.createElement("canvas")
            Object.assign(canvas, { width: image.width, height: image.height })
            const context = canvas.getContext("2d")
            context.drawImage(image, 0, 0)
            const pixels = context.getImageData(0, 0, image.width, image.height).data
            return [[image.width, image.height], pixels.filter((value, at) => at % 4 === 0 && value > 200).length]
        }""",
        poster,
    )
    assert size == [160, 120]
    assert 0.7 * 40 * 40 < bright < 1.3 * 40 * 40


def test_light_and_dark(opened):
    page, colour = opened.page, "element => getComputedStyle(element).backgroundColor"
    seen = []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        seen.append(_brightness(page.locator("body").evaluate(colour)))
        assert _brightness(page.locator("picture").first.evaluate(colour)) == 255  # figures are black on white
    assert seen[0] < 64 < 192 < seen[1]


def _brightness(colour: str) -> float:
    return float(np.mean([int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]))


def test_numbers_are_saved(opened, runs, tmp_path):
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("link", name="figure1.csv").click()
    assert waiting.value.suggested_filename == "figure1.csv"
    saved = waiting.value.path().read_bytes()
    kept = [run for run in find_runs([runs]) if run.path.parent.name != "k-1"]
    assert saved == draw_figure1(kept, tmp_path / "figure1.csv").read_bytes()
    assert len(list(csv.DictReader(io.StringIO(saved.decode())))) == 5 * 200
    assert opened.complaints == []


def test_headings_ids_and_tables_are_in_order(opened):
    page = opened.page
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(each => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in itertools.pairwise(levels))
    names = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(names) == len(set(names))
    assert page.locator("html").get_attribute("lang") == "en"
    links = page.evaluate("[...document.querySelectorAll('nav a')].map(each => each.getAttribute('href').slice(1))")
    assert set(links) <= set(names)
    assert page.locator("table").count() == page.locator("table > caption").count() > 5
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("th[scope=rowgroup][rowspan='6']", has_text="Q*bert").count() > 0


def test_it_is_used_with_the_keyboard(own):
    page = own.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#figure1"
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**#runs")
    let_draw(page)
    assert 0 <= page.locator("#runs").bounding_box()["y"] < 40
    summary = page.locator("summary", has_text="All settings").first
    summary.focus()
    assert not page.get_by_text("capacity = 1000000").first.is_visible()
    page.keyboard.press("Enter")
    assert page.get_by_text("capacity = 1000000").first.is_visible()
    assert page.locator(".scrolling:not([tabindex='0'][aria-label])").count() == 0


def test_paper_shows_what_the_screen_folds(opened):
    page = opened.page
    folded = page.locator("details:not([open]) pre").first
    assert not folded.evaluate("block => block.checkVisibility()")
    page.emulate_media(media="print")
    assert folded.evaluate("block => block.checkVisibility()")
    assert folded.bounding_box()["height"] > 20
    assert not page.locator("nav").is_visible()
    page.emulate_media(media="screen")
