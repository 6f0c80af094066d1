"""The inspector's page in a real browser, with made-up answers: true to them, quick to use, closed to markup."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mfec.inspector.document import page_document
from mfec.inspector.export_data import Memories

from ..browser import Watched, let_draw, watch
from ..waiting import wait_until
from .looking import MINUS, go_to, near, open_page, pixels, read, shows, wait_for, wait_for_step
from .made_up import FRAME_SKIP, HOSTILE, MadeUp, Serving, make_up, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TITLE = f"An inspection {HOSTILE}"


@pytest.fixture(scope="module")
def made() -> MadeUp:
    return make_up(steps=120)


@pytest.fixture(scope="module")
def exported(made: MadeUp, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page in a file."""
    out = tmp_path_factory.mktemp("export") / "page.html"
    out.write_text(page_document(title=TITLE, recorded=made.recorded())[0])
    return out


@pytest.fixture(scope="module")
def opened(browser: Browser, exported: Path) -> Watched:
    """The exported page, at a step with averages and one with exact matches near it; tests leave it where it was."""
    return open_page(browser, exported.as_uri(), step=40)


@pytest.fixture(scope="module")
def window(browser: Browser, exported: Path) -> Watched:
    return open_page(browser, exported.as_uri(), step=40)


@pytest.fixture
def own(window: Watched, exported: Path) -> Watched:
    """The exported page, loaded anew for one test."""
    page = window.page
    page.goto("about:blank")
    window.requests.clear()
    window.complaints.clear()
    page.goto(f"{exported.as_uri()}#game=0&step=40")
    assert page.evaluate("window.inspector.ready")
    wait_for_step(page, 40)
    page.mouse.move(2, 2)
    return window


@pytest.fixture
def serving(made: MadeUp) -> Iterator[Serving]:
    with serve(made, *page_document(title=TITLE)) as serving:
        yield serving


@pytest.fixture
def live(browser: Browser, serving: Serving) -> Iterator[Watched]:
    """The page from a server."""
    watched = open_page(browser, serving.address, step=40)
    yield watched
    watched.page.context.close()


def _wait(page: Page, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, while the browser goes on."""
    wait_until(condition, "the page", between=lambda: page.wait_for_timeout(15))


def _step(made: MadeUp, step: int, game: int = 0) -> dict[str, Any]:
    return made.answers[f"/api/games/{game}/steps/{step}"]


# -- True to the data -------------------------------------------------------------------------------------------------


def test_every_number_of_a_step_is_that_of_the_data(own, made):
    for step in (2, 3, 5):
        go_to(own.page, step)
        _check_numbers(own.page, made, step)
    assert own.complaints == []


def _check_numbers(page: Page, made: MadeUp, step: int) -> None:
    data = _step(made, step)
    for row, estimate in zip(page.locator(".row").all(), data["actions"], strict=True):
        assert row.get_attribute("data-source") == estimate["source"]
        if estimate["value"] is None:
            assert row.locator(".value").inner_text() == "untried"
        else:
            assert float(row.get_attribute("data-value")) == estimate["value"]
            assert near(row.locator(".value").inner_text(), estimate["value"])
            words = {"exact": "exact match", "zero": "too few, so 0"}
            said = words.get(estimate["source"], f"average of {len(estimate['neighbours'])}")
            assert row.locator(".kind").inner_text() == said
    taken = page.locator(".row.taken .name").all_inner_texts()
    actions = made.answers["/api/run"]["actions"]
    assert taken == [actions[data["action"]]]
    assert page.locator(".row.taken .tag").inner_text() == ("random" if data["explored"] else "taken")
    verdict = page.locator("#verdict").inner_text()
    assert verdict.startswith("Random action" if data["explored"] else "Takes")
    assert actions[data["action"]] in verdict

    neighbours = data["actions"][data["action"]]["neighbours"]
    cards = page.locator(".strip").first.locator(".card:visible")
    assert cards.count() == len(neighbours)
    for card, neighbour in zip(cards.all(), neighbours, strict=True):
        value, distance, episode, frame, matched = card.locator("> strong, > span:not(.thumbnail)").all_inner_texts()
        assert float(card.get_attribute("data-value")) == neighbour["value"]
        assert near(value, neighbour["value"])
        assert distance == "the same state" if neighbour["distance"] == 0 else near(distance, neighbour["distance"])
        assert (read(episode), read(frame)) == (neighbour["episode"], neighbour["frame"])
        assert read(matched) == neighbour["matched"]

    figures = dict(
        page.locator("#figures div").evaluate_all("all => all.map(one => [...one.children].map(c => c.innerText))")
    )
    own_figures = data["figures"]
    assert read(figures["Frame"]) == step * FRAME_SKIP
    assert read(figures["Reward that followed"]) == data["reward"]
    assert read(figures["Score so far"]) == data["score"]
    assert read(figures["Memories used"]) == own_figures["used"]
    assert read(figures["Exact so far, of actions taken"]) == round(100 * own_figures["exact_chosen_share"])
    assert read(figures["Exact so far, of all look-ups"]) == round(100 * own_figures["exact_share"])
    assert abs(read(figures["Median age, in frames"]) - own_figures["age_median"]) <= 0.5
    ages = [read(part) for part in figures["Youngest and oldest"].split(" to ")]
    assert ages == [own_figures["age_youngest"], own_figures["age_oldest"]]


def test_the_frame_is_drawn_pixel_by_pixel(own, made):
    page = own.page
    canvas = page.locator("#stage canvas")
    assert shows(canvas, made.frames["/api/games/0/pictures", 40])
    assert canvas.get_attribute("aria-label") == "Frame 160 of this game"
    page.get_by_role("button", name="What the agent sees").click()
    wait_for(page, "document.querySelector('#stage canvas').width === 84")
    assert shows(canvas, made.frames["/api/games/0/observations", 40])
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 41)
    assert shows(canvas, made.frames["/api/games/0/observations", 41])


def test_remembered_frames_are_drawn_or_said_to_be_missing(own, made):
    page = own.page
    page.get_by_role("button", name="of all actions").click()
    there, missing = 0, 0
    for strip in page.locator(".strip:visible").all():
        strip.scroll_into_view_if_needed()
        action = int(strip.get_attribute("data-action"))
        neighbours = _step(made, 40)["actions"][action]["neighbours"]
        for card, neighbour in list(zip(strip.locator(".card:visible").all(), neighbours, strict=True))[:5]:
            place = (f"/api/past/{neighbour['episode']}/frames", neighbour["frame"] // FRAME_SKIP)
            label = f"Remembered frame {neighbour['frame']} of episode {neighbour['episode']}"
            assert card.locator("canvas").get_attribute("aria-label") == label
            if place in made.frames:
                _wait(page, lambda card=card, place=place: shows(card.locator("canvas"), made.frames[place]))
                there += 1
            else:
                card.get_by_text("no frame").wait_for()
                assert card.get_attribute("title") in ("This is not in this file.", f"Frames were not kept {HOSTILE}.")
                missing += 1
    assert there > 5 < 5 * missing


def _written(made: MadeUp, directory: Path) -> str:
    """The address of a page in a file."""
    out = directory / "page.html"
    out.write_text(page_document(title="written", recorded=made.recorded())[0])
    return out.as_uri()


def _shortened(made: MadeUp) -> MadeUp:
    """The same with every memory once, as an exported page has them."""
    memories = Memories(weighted=made.answers["/api/run"]["kernel"] != "mean")
    steps = {path: memories.shorten(told) for path, told in made.answers.items() if "/steps/" in path}
    return MadeUp({**made.answers, **steps, "memories": json.loads(memories.as_json())}, made.frames)


def test_what_each_memory_counts_is_shown_where_it_differs(browser, tmp_path):
    made = make_up(steps=12, kernel="inverse", environment="Weights")
    watched = open_page(browser, _written(_shortened(made), tmp_path), step=0)
    page, heights, sources = watched.page, set(), set()
    assert "11 neighbours, kernel inverse, epsilon" in page.locator("#about").inner_text()
    for step in range(6):
        go_to(page, step)
        data = _step(made, step)
        for row, estimate in zip(page.locator(".row").all(), data["actions"], strict=True):
            if estimate["source"] == "weighted_mean":
                assert row.locator(".kind").inner_text() == "weighted, of 11"
        estimate = data["actions"][data["action"]]
        strip = page.locator(".strip").first
        assert ("where nearer ones count more" in strip.locator("h3").inner_text()) == (
            estimate["source"] == "weighted_mean"
        )
        for card, neighbour in zip(strip.locator(".card:visible").all(), estimate["neighbours"], strict=True):
            told = card.locator("> span:not(.thumbnail)").all_inner_texts()[1]
            assert told.startswith("weight ")
            assert near(told, neighbour["weight"])
            assert told in card.get_attribute("aria-label")
        heights.add(strip.bounding_box()["height"])
        sources.add(estimate["source"])
        cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"
        assert page.locator(".kind, .card > span").evaluate_all(cut) == []
    assert sources == {"exact", "weighted_mean", "infinity"}
    assert len(heights) == 1, "nothing jumps from step to step"

    step = next(i for i in range(6) if len(_step(made, i)["actions"][_step(made, i)["action"]]["neighbours"]) > 1)
    go_to(page, step)
    card = page.locator(".strip").first.locator(".card:not([aria-disabled])").first
    words = card.locator("> span:not(.thumbnail)").all_inner_texts()[1]
    card.hover()
    assert words in page.locator("#map-says").inner_text()
    card.click()
    assert words in page.locator("#comparison-about").inner_text()
    assert watched.complaints == []
    page.context.close()


def test_where_all_memories_count_the_same_no_weight_is_shown(opened):
    assert "weight" not in opened.page.locator("body").inner_text()
    assert "kernel" not in opened.page.locator("#about").inner_text()


@pytest.fixture(scope="module")
def odd(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A page of extremes: numbers at step 4, ties at steps 7 to 9, long names, and a map with a memory far away."""
    made = make_up(steps=12, n_actions=8, environment="Odd")
    made.answers["/api/run"]["actions"][6:] = ["forward and turn left", "forward and turn right"]
    step = _step(made, 4)
    for estimate, value in zip(step["actions"], (-0.00871, 0.0000123, -123456.0), strict=False):
        estimate.update(value=value)
    step["actions"][step["action"]]["neighbours"][0]["matched"] = 9_431
    for number, explored, highest in ((7, False, [0, 2]), (8, True, [0, 2]), (9, True, [0, 1, 2])):
        _step(made, number).update(action=3 if explored else 0, explored=explored, highest=highest)
    points = made.answers["/api/run"]["map"]
    points["value"][0], points["x"][0] = 1e6, 1e6
    points["value"][1:] = [max(0.0, value - 300) for value in points["value"][1:]]  # many have the lowest one
    return open_page(browser, _written(made, tmp_path_factory.mktemp("odd")), step=4).page


CUT = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"


def test_small_and_large_numbers_find_room(odd):
    go_to(odd, 4)
    assert odd.locator(".value").all_inner_texts()[:3] == [f"{MINUS}0.00871", f"1.2e{MINUS}5", f"{MINUS}123,456"]
    assert odd.locator(".value, .kind, .entries, .card > span").evaluate_all(CUT) == []
    assert odd.locator(".card").first.inner_text().splitlines()[-1] == "matched 9,431\N{MULTIPLICATION SIGN}"


def test_long_names_of_actions_find_room(odd):
    """Every name in one line beside its bar, and whole in the table."""
    heights = odd.locator(".row").evaluate_all("all => all.map(one => one.offsetHeight)")
    assert max(heights) - min(heights) <= 1
    odd.locator(".card").first.click()
    odd.locator("#comparison tbody tr").first.wait_for()
    assert odd.locator("#comparison tbody td, #comparison tbody th").evaluate_all(CUT) == []
    odd.keyboard.press("Escape")
    wait_for(odd, "!document.querySelector('#inspecting').hidden")


def test_actions_that_share_the_highest_value_are_marked(odd):
    names = odd.locator(".row .name").all_inner_texts()
    go_to(odd, 7)
    assert odd.locator(".tag").all_inner_texts()[:4] == ["taken", "", "highest", ""]
    go_to(odd, 8)
    assert odd.locator(".tag").all_inner_texts()[:4] == ["highest", "", "highest", "random"]
    assert odd.locator("#verdict").inner_text().endswith(f"{names[0]} and {names[2]} have the highest value.")
    go_to(odd, 9)
    assert odd.locator("#verdict").inner_text().endswith("3 others have the highest value.")


def test_the_map_says_what_lies_beyond_its_edges_and_colours(odd):
    assert odd.locator("#map-about").inner_text().endswith("; the few farthest are at the edge.")
    first, _, last = odd.locator("#memory-map .scale li").all_inner_texts()
    assert first == "0"
    assert last.startswith("\N{GREATER-THAN OR EQUAL TO} ")


def test_bars_share_one_scale_with_zero_in_it(own, made):
    page = own.page
    for step in (5, 40):
        go_to(page, step)
        values = [estimate["value"] for estimate in _step(made, step)["actions"]]
        low, high = min(0, *values), max(0, *values)
        for row, value in zip(page.locator(".row").all(), values, strict=True):
            bar, fill = row.locator(".bar").bounding_box(), row.locator(".fill").bounding_box()
            zero = bar["x"] + bar["width"] * -low / (high - low)
            end = bar["x"] + bar["width"] * (value - low) / (high - low)
            assert fill["x"] == pytest.approx(min(zero, end), abs=1.1)
            assert fill["x"] + fill["width"] == pytest.approx(max(zero, end), abs=1.1)
    assert any(value < 0 for value in values) or any(e["value"] < 0 for e in _step(made, 5)["actions"])


def test_numbers_stand_where_there_is_no_picture(browser, tmp_path):
    made = make_up(steps=20, n_actions=3, numbers=True, environment="Cart")
    out = tmp_path / "page.html"
    out.write_text(page_document(title="numbers", recorded=made.recorded())[0])
    watched = open_page(browser, out.as_uri(), step=7)
    page = watched.page
    assert page.locator("#numbers .now").all_inner_texts() == ["0.07", f"{MINUS}0.2", "3", f"1.0e{MINUS}5"]
    assert not page.locator("#stage").is_visible()
    assert not page.locator("#seen").is_visible()
    first = _step(made, 7)["actions"][_step(made, 7)["action"]]["neighbours"][0]
    told = [
        text.replace(MINUS, "-") for text in page.locator("button.card").first.locator(".digits span").all_inner_texts()
    ]
    assert [float(text) for text in told] == pytest.approx(first["numbers"], rel=0.06, abs=0.0005)
    assert page.locator(".present .digits span").first.all_inner_texts() == ["0.07"]
    page.locator("button.card").first.hover()
    beneath = [text.replace(MINUS, "-") for text in page.locator("#numbers .then").all_inner_texts()]
    assert [float(text) for text in beneath] == pytest.approx(first["numbers"], rel=0.006)
    page.locator("button.card").first.click()
    wait_for(page, "document.querySelector('#side-then .note').textContent.includes('not kept')")
    assert page.locator("#side-then .in-place").inner_text() == "No frames: see the note below."
    assert page.locator("tr[aria-current]").inner_text().split()[0] == "memory"
    assert watched.complaints == []
    page.context.close()


def test_map_and_timeline_are_described_and_drawn(opened, made):
    page = opened.page
    label = page.locator("#memory-map canvas").get_attribute("aria-label")
    assert label.startswith("Map of 900 memories, coloured by value.")
    assert len(np.unique(pixels(page.locator("#memory-map canvas")).reshape(-1, 4), axis=0)) > 50
    game = made.answers["/api/games/0"]
    label = page.locator("#timeline canvas").get_attribute("aria-label")
    assert f"120 steps, {np.count_nonzero(game['rewards'])} rewards, {game['score']:g} in all" in label
    assert f"{sum(game['explored'])} random actions" in label
    slider = page.get_by_role("slider", name="Step of this game")
    assert [slider.get_attribute(f"aria-value{what}") for what in ("min", "now", "max")] == ["0", "40", "119"]


def test_the_map_tells_what_is_under_the_pointer(own):
    page = own.page
    said = page.locator("#map-says")
    before = said.inner_text()
    box = page.locator("#memory-map canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert re.fullmatch(r"Here: .+, value [\d,.]+\.", said.inner_text())
    page.mouse.move(5, 5)
    assert said.inner_text() == before
    page.locator(".card").nth(1).hover()
    assert said.inner_text().startswith("Value ")


# -- Moving -----------------------------------------------------------------------------------------------------------


def test_scrubbing_with_the_pointer(own, made):
    page = own.page
    box = page.locator("#timeline .slider").bounding_box()
    middle = box["y"] + box["height"] / 2

    def x(step: int) -> float:
        return box["x"] + box["width"] * (step + 0.5) / 120

    page.mouse.move(x(10), middle)
    page.mouse.down()
    wait_for_step(page, 10)
    page.mouse.move(x(90), middle, steps=20)
    wait_for_step(page, 90)
    page.mouse.move(box["x"] + 2 * box["width"], middle)
    wait_for_step(page, 119)
    page.mouse.up()
    page.mouse.move(x(3), middle)
    assert page.locator("#transport .place").inner_text() == "step 119 of 119"
    assert shows(page.locator("#stage canvas"), made.frames["/api/games/0/pictures", 119])
    assert page.evaluate("document.activeElement.getAttribute('role')") == "slider"


def test_keys_step_once_wherever_the_focus_is(own):
    for focus in ("body", "#timeline .slider", ".card"):
        go_to(own.page, 40)
        if focus != "body":
            own.page.locator(focus).first.focus()
        _press_all_moves(own.page)


def _press_all_moves(page: Page) -> None:
    for key, step in (
        ("ArrowRight", 41),
        ("ArrowLeft", 40),
        ("Shift+ArrowRight", 50),
        ("PageDown", 60),
        ("PageUp", 50),
        ("Shift+ArrowLeft", 40),
        ("End", 119),
        ("ArrowRight", 119),
        ("Home", 0),
        ("ArrowLeft", 0),
    ):
        page.keyboard.press(key)
        wait_for(page, f"document.querySelector('#timeline .slider').ariaValueNow === '{step}'")
    wait_for_step(page, 0)
    assert page.evaluate("scrollY") == 0


def test_a_select_keeps_its_keys(own):
    page = own.page
    speed = page.locator("#transport select")
    speed.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    assert speed.input_value() == "4"
    let_draw(page)
    assert page.locator("#transport .place").inner_text() == "step 40 of 119"


def test_rewards_are_found(own, made):
    page = own.page
    rewards = np.flatnonzero(made.answers["/api/games/0"]["rewards"])
    page.keyboard.press("]")
    wait_for_step(page, rewards[rewards > 40][0])
    page.get_by_role("button", name="Previous reward").click()
    wait_for_step(page, rewards[rewards <= 40][-1])


def test_playing_and_pausing(own):
    page = own.page
    speed, at = page.locator("#transport select"), "Number(document.querySelector('#timeline .slider').ariaValueNow)"
    speed.select_option("0.1")  # a minute to the end: it is paused before
    page.locator("#timeline .slider").focus()
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Pause").is_visible()
    wait_for(page, f"{at} > 40")
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Play", exact=True).is_visible()
    stopped = page.locator("#transport .place").inner_text()
    speed.select_option("4")
    let_draw(page, frames=20)
    assert page.locator("#transport .place").inner_text() == stopped
    speed.select_option("0.1")
    page.locator("#timeline .slider").focus()
    page.keyboard.press("End")
    page.keyboard.press("Space")  # at the end it begins anew
    wait_for(page, f"0 < {at} && {at} < 119")
    page.locator("#transport .play").click()
    speed.select_option("4")
    go_to(page, 117)
    page.keyboard.press("Escape")
    page.locator("#timeline .slider").focus()
    page.keyboard.press("Space")  # and stops there
    wait_for(page, "document.querySelector('#transport .play').ariaLabel === 'Play'")
    assert page.locator("#transport .place").inner_text() == "step 119 of 119"


def test_ears_are_told_the_step_when_nothing_plays(own):
    page = own.page
    page.keyboard.press("ArrowRight")
    wait_for(page, "document.querySelector('#spoken').textContent.startsWith('Step 41. ')")
    assert page.locator("#spoken").get_attribute("aria-live") == "polite"


# -- A memory, and back -----------------------------------------------------------------------------------------------


def _memory(made: MadeUp, step: int, *, rank: int | None = None) -> tuple[int, dict[str, Any]]:
    """The place among its neighbours of a memory of the action taken whose whole episode was kept, and the memory."""
    data = _step(made, step)
    neighbours = data["actions"][data["action"]]["neighbours"]
    whole = [i for i, each in enumerate(neighbours) if each["episode"] not in (None, 3, 4)]
    return whole[0], neighbours[whole[0]]


def _beside(page: Page, made: MadeUp, memory: dict[str, Any], by: int) -> None:
    """Check that both sides are so many steps from the memory."""
    now, then = 40 + by, memory["frame"] // FRAME_SKIP + by
    game, past = made.answers["/api/games/0"], made.answers[f"/api/past/{memory['episode']}"]
    actions = made.answers["/api/run"]["actions"]
    wait_for(
        page,
        "labels => labels.every(label => document.querySelector(`#comparison canvas[aria-label='${label}']`))",
        [
            f"Frame {now * FRAME_SKIP} of this game",
            f"Remembered frame {then * FRAME_SKIP} of episode {memory['episode']}",
        ],
    )
    assert shows(page.locator("#side-now .stage canvas"), made.frames["/api/games/0/observations", now])
    assert shows(page.locator("#side-then .stage canvas"), made.frames[f"/api/past/{memory['episode']}/frames", then])
    for side, episode, step in (("now", game, now), ("then", past, then)):
        figures = page.locator(f"#side-{side} dd").all_inner_texts()
        since = sum(episode["rewards"][step - by : step])
        assert figures[0] == f"{step:,} (frame {step * FRAME_SKIP:,})"
        assert figures[1] == actions[episode["actions"][step]]
        assert [read(text) for text in figures[2:]] == [episode["rewards"][step], since]
    row = page.locator("tr[aria-current]").locator("th, td").all_inner_texts()
    assert row[0] == ("memory" if by == 0 else str(by))
    assert row[1::2] == [actions[game["actions"][now]], actions[past["actions"][then]]]


def test_a_memory_is_watched_and_left_with_the_pointer(own, made):
    page = own.page
    place, memory = _memory(made, 40)
    page.locator(".card").nth(place).click()
    _beside(page, made, memory, 0)
    action = _step(made, 40)["action"]
    assert page.url.endswith(f"#game=0&step=40&memory={action}:{memory['id']}")
    page.go_back()
    wait_for(page, "document.activeElement.matches('.card')")
    page.go_forward()
    _beside(page, made, memory, 0)
    page.locator("#comparison [data-do=on]").click()
    page.locator("#comparison [data-do=on]").click()
    _beside(page, made, memory, 2)
    past = made.answers[f"/api/past/{memory['episode']}"]
    start = memory["frame"] // FRAME_SKIP
    assert f"Then, {sum(past['rewards'][start:]):g} followed" in page.locator("#followed-note").inner_text()
    assert page.locator("#side-then .note").inner_text().startswith(past["note"])
    page.get_by_role("button", name="Back to step 40").click()
    wait_for(page, "document.activeElement.matches('.card')")
    assert page.evaluate("document.activeElement.dataset.id") == str(memory["id"])
    assert page.locator("#transport .place").inner_text() == "step 40 of 119"
    assert page.url.endswith("#game=0&step=40")
    assert own.complaints == []


def test_a_memory_is_watched_and_left_with_the_keyboard_alone(own, made):
    page = own.page
    place, memory = _memory(made, 40)
    page.keyboard.press("m")
    for _ in range(place):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.id") == str(memory["id"])
    page.keyboard.press("Enter")
    _beside(page, made, memory, 0)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    _beside(page, made, memory, 3)
    wait_for(page, "document.querySelector('#spoken').textContent.startsWith('3 steps on: now ')")
    page.keyboard.press("Home")
    _beside(page, made, memory, 0)
    page.keyboard.press("End")
    steps = made.answers[f"/api/past/{memory['episode']}"]["steps"]
    assert page.get_by_role("slider", name="The past episode").get_attribute("aria-valuenow") == str(steps - 1)
    page.keyboard.press("Escape")
    wait_for(page, "document.activeElement.matches('.card')")
    assert page.evaluate("document.activeElement.dataset.id") == str(memory["id"])
    assert page.locator("#transport .place").inner_text() == "step 40 of 119"


def test_all_of_the_page_is_reached_with_tab(own):
    page = own.page
    reached = set()
    page.evaluate("document.activeElement.blur()")
    for _ in range(45):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(([at]) => at === document.body ? '' : at.id || at.dataset.do || at.dataset.seen || at.dataset.opened"
                " || at.getAttribute('role') || at.className.split(' ')[0])([document.activeElement])"
            )
        )
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or page.evaluate("document.activeElement === document.body")
    wanted = {
        "help",
        "picture",
        "observation",
        "earlier",
        "back",
        "play",
        "on",
        "later",
        "slider",
        "row",
        "taken",
        "all",
    }
    assert wanted | {"card", "img"} <= reached


def test_a_link_leads_to_a_memory(own, exported, made):
    action, (_, memory) = _step(made, 40)["action"], _memory(made, 40)
    page = own.page
    page.goto("about:blank")
    page.goto(f"{exported.as_uri()}#game=0&step=40&memory={action}:{memory['id']}")
    _beside(page, made, memory, 0)
    page.keyboard.press("Escape")
    wait_for(page, "document.activeElement.matches('.card')")
    assert page.url.endswith("#game=0&step=40")
    page.evaluate("location.hash = '#game=0&step=40&memory=1:999999999'")
    page.get_by_text("The memory in this address is not behind this step.").wait_for()


def test_the_past_episode_is_scrubbed(own, made):
    page = own.page
    place, memory = _memory(made, 40)
    page.locator(".card").nth(place).click()
    _beside(page, made, memory, 0)
    steps, start = made.answers[f"/api/past/{memory['episode']}"]["steps"], memory["frame"] // FRAME_SKIP
    box = page.locator("#side-then .slider").bounding_box()
    goal = start - 5 if start >= 5 else start + 5
    page.mouse.click(box["x"] + box["width"] * (goal + 0.5) / steps, box["y"] + 10)
    _beside(page, made, memory, goal - start) if goal > start else None
    assert page.locator("#side-then dd").first.inner_text().startswith(f"{goal:,} ")
    mark = page.locator("#side-then .mark").bounding_box()
    assert mark["x"] == pytest.approx(box["x"] + box["width"] * (start + 0.5) / steps, abs=2)


def test_a_memory_without_a_date_says_so(own, made):
    page = own.page
    go_to(page, 3)
    row = page.locator(".row").first
    if row.get_attribute("aria-expanded") == "false":
        row.click()
    strip = page.locator(".strip[data-action='0']")
    assert "not recorded" in strip.locator(".card").first.inner_text()
    strip.locator(".card").first.click(force=True)
    assert "was not recorded" in page.locator("#notice").inner_text()
    page.locator("#notice button").click()
    assert not page.locator("#notice").is_visible()
    assert page.locator("#inspecting").is_visible()


# Every strip in the window has its cards.
FILLED = """[...document.querySelectorAll(".strip:not([hidden])")].every(
    strip => strip.getBoundingClientRect().top > innerHeight || strip.querySelector(".card"))"""


def test_nothing_jumps_at_a_random_action_while_it_plays(own):
    """Its second strip, of what would have been done otherwise, is shown when it stands still."""
    page = own.page
    go_to(page, 5)
    assert page.locator(".strip:visible").count() == 2
    page.locator("#transport select").select_option("0.1")
    page.locator("#timeline .slider").focus()
    page.keyboard.press("Space")
    assert page.locator(".strip:visible").count() == 1
    page.keyboard.press("Space")
    assert page.locator(".strip:visible").count() == 2


def test_actions_are_folded_open_and_shut(own):
    page = own.page
    taken = page.locator(".row.taken")
    assert page.locator(".strip:visible").count() == 1
    assert taken.get_attribute("aria-expanded") == "true"
    other = page.locator(".row:not(.taken)").last
    other.click()
    assert other.get_attribute("aria-expanded") == "true"
    assert page.locator(".strip:visible").count() == 2
    other.press("Enter")
    assert page.locator(".strip:visible").count() == 1
    page.get_by_role("button", name="of all actions").click()
    assert page.locator(".strip:visible").count() == 6
    wait_for(page, FILLED)
    assert page.locator(".hint:visible").count() <= 1
    page.get_by_role("button", name="of the action taken").click()
    assert page.locator(".strip:visible").count() == 1


def test_the_keys_are_told(own):
    page = own.page
    page.keyboard.press("?")
    dialog = page.locator("#keys")
    assert dialog.is_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.locator("#transport .place").inner_text() == "step 40 of 119"
    page.get_by_role("button", name="Keys").click()
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()


# -- For all eyes and windows -----------------------------------------------------------------------------------------


def test_the_essential_is_visible_without_scrolling(opened):
    page = opened.page
    for selector in ("#stage", "#transport", "#timeline", "#figures", "#actions", ".strip", "#memory-map"):
        box = page.locator(selector).first.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 800, selector


def test_no_window_scrolls_sideways(browser, tmp_path):
    made = make_up(steps=12, n_actions=18, k=50, directory="d" * 200)
    watched = open_page(browser, _written(made, tmp_path), step=1)
    page = watched.page
    page.get_by_role("button", name="of all actions").click()
    for opened in ("strips", "a memory"):
        for width in (1280, 800, 375):
            page.set_viewport_size({"width": width, "height": 800})
            wide = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            assert page.evaluate(wide) == [width, width], opened
        if opened == "strips":
            assert page.locator(".cards").evaluate_all("all => all.some(one => one.scrollWidth > one.clientWidth)")
            page.locator(".card").first.click()
            page.locator("#side-then").wait_for()
    assert watched.complaints == []
    page.context.close()


@pytest.mark.parametrize("size", [1, 4, 128])
def test_numbers_fit_every_window(browser, tmp_path, size):
    """Of one number or of many, long ones too: none is cut off, and the page does not scroll sideways."""
    made = make_up(steps=6, n_actions=3, numbers=True)
    long = [1234567.0, -0.000123456, -98765.4321, 1e-30, 0.0, -1.0, 3.3e20, 0.123456]
    numbers = [long[place % len(long)] for place in range(size)]
    made.answers["/api/run"]["numbers"] = 10_000 if size == 128 else size
    for path, answer in made.answers.items():
        if "/steps/" in path:
            answer["numbers"] = numbers
            for estimate in answer["actions"]:
                for near in estimate["neighbours"]:
                    near["numbers"] = numbers
    for episode in range(1, 9):
        past = made.answers[f"/api/past/{episode}"]
        past["numbers"] = [numbers] * past["steps"]
    watched = open_page(browser, _written(made, tmp_path), step=1)
    page = watched.page
    assert page.locator("#numbers li").count() == size
    if size == 128:
        assert "the first 128 of 10,000 numbers" in page.locator("#numbers .note").inner_text()
        assert page.locator("button.card .digits span").nth(7).inner_text() == "+ 9,993"
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.outerHTML)"
    for compared in (False, True):
        for width in (1280, 768, 400, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert page.locator(".table, .table li, .table span").evaluate_all(cut) == []
        if not compared:
            page.locator("button.card").first.click()
            page.locator("#side-then .now").first.wait_for()
            wait_for(page, "document.querySelectorAll('#side-now li').length > 0")
            now, then = (page.locator(f"{side} .now").all_inner_texts() for side in ("#side-now", "#side-then"))
            assert len(now) == size
            assert now == then
    assert watched.complaints == []
    page.context.close()


def test_only_cards_in_sight_ask_for_frames_and_all_at_once(browser):
    made = make_up(steps=6, n_actions=18, k=50)
    with serve(made, *page_document(title="Many")) as serving:
        page = open_page(browser, serving.address, step=0).page
        # A busy browser says only after a while which cards of a new strip are in sight.
        _wait(page, lambda: any("thumbnails" in path for path in serving.asked))
        asked = [path for path in serving.asked if "thumbnails" in path]
        places = asked[0].split("=")[1].split(",")
        assert len(asked) <= 3  # this step, and the next one ahead of time
        assert 1 <= len(places) < 20
        page.locator(".cards").first.evaluate("strip => strip.scrollLeft = 3000")
        if len(_step(made, 0)["actions"][_step(made, 0)["action"]]["neighbours"]) > 1:
            wait_for(page, "![...document.querySelectorAll('.card')].at(-1).querySelector('canvas').hidden")
        page.context.close()


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_text_is_readable_in_light_and_dark(opened, scheme):
    page = opened.page
    page.emulate_media(color_scheme=scheme)
    page.get_by_role("button", name="of all actions").click()
    ratios = page.evaluate(
        """() => {
            const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true })
            const rgb = colour => {
                paint.clearRect(0, 0, 1, 1); paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1)
                return [...paint.getImageData(0, 0, 1, 1).data]
            }
            const light = ([r, g, b]) => {
                const part = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
                return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b)
            }
            const found = []
            const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
            while (walker.nextNode()) {
                const element = walker.currentNode.parentElement
                if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue
                if (element.closest("select, button:disabled, script")) continue
                let ground = element
                while (ground && rgb(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement
                const behind = getComputedStyle(ground ?? document.body)
                const pair = [getComputedStyle(element).color, behind.backgroundColor]
                const [one, other] = pair.map(each => light(rgb(each))).sort((a, b) => b - a)
                found.push([(one + 0.05) / (other + 0.05), walker.currentNode.textContent, ...pair])
            }
            return found
        }"""
    )
    assert len(ratios) > 100
    assert [each for each in ratios if each[0] < 4.5] == []
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (np.mean([int(part) for part in re.findall(r"\d+", body)]) < 64) == (scheme == "dark")
    page.get_by_role("button", name="of the action taken").click()


def test_everything_has_a_name_and_headings_are_in_order(own):
    page = own.page
    for _ in range(2):
        levels = page.evaluate(
            "[...document.querySelectorAll('h1,h2,h3,h4')].filter(h => h.checkVisibility()).map(h => +h.tagName[1])"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(below <= above + 1 for above, below in itertools.pairwise(levels))
        unnamed = page.evaluate(
            "[...document.querySelectorAll('canvas')].filter(each => each.checkVisibility())"
            ".filter(each => each.getAttribute('role') !== 'img' || each.ariaLabel.length < 8).length"
        )
        assert unnamed == 0
        nameless = page.evaluate(
            "[...document.querySelectorAll('button')].filter(each => each.checkVisibility())"
            ".filter(each => !each.innerText.trim() && !each.ariaLabel).length"
        )
        assert nameless == 0
        page.locator(".card").first.click() if page.locator("#inspecting").is_visible() else None
    names = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(names) == len(set(names))
    assert page.locator("html").get_attribute("lang") == "en"


# -- Closed -----------------------------------------------------------------------------------------------------------


def test_names_that_are_html_are_text(own, made):
    page = own.page
    assert page.title() == TITLE
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("#about code").inner_text() == "runs/<b>bold</b>"
    assert page.locator(".row .name").nth(1).inner_text() == HOSTILE
    for episode in (3, 4):
        found = [
            (step, data["action"], each["id"])
            for step in range(120)
            for data in [_step(made, step)]
            for each in data["actions"][data["action"]]["neighbours"]
            if each["episode"] == episode
        ]
        step, action, memory = found[0]
        page.evaluate(f"location.hash = '#game=0&step={step}&memory={action}:{memory}'")
        wait_for(page, f"document.querySelector('#side-then h3').textContent === 'Then: episode {episode}'")
        wait_for(page, "!document.querySelector('#side-then .note').textContent.startsWith('Asking')")
        page.keyboard.press("Escape")
        wait_for(page, "!document.querySelector('#inspecting').hidden")
    assert page.locator("img, #about b").count() == 0
    assert own.complaints == []


def test_what_is_slipped_into_the_page_is_refused(own):
    own.page.evaluate(
        """async () => {
            document.body.insertAdjacentHTML("beforeend", `<img src="http://127.0.0.1:9/x" onerror="window.ran = 1">`)
            const script = document.createElement("script")
            script.textContent = "window.ran = 1"
            document.body.append(script)
            try { await fetch("http://127.0.0.1:9/") } catch (error) {}
        }"""
    )
    wait_for(own.page, "new Set(broken).size >= 4")
    assert set(own.page.evaluate("broken")) == {"connect-src", "img-src", "script-src-attr", "script-src-elem"}
    assert own.page.evaluate("window.ran === undefined")


def test_the_policy_names_what_it_allows():
    html, policy = page_document(title="Served")
    assert "frame-ancestors 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "http-equiv" not in html
    assert 'id="recorded"' not in html
    html, policy = page_document(title="Exported", recorded=b"")
    assert "frame-ancestors" not in policy
    assert "connect-src 'none'" in policy
    assert html.count("http-equiv") == 1
    assert "unsafe" not in policy
    assert html.count("</script>") == 2


# -- Where things go wrong --------------------------------------------------------------------------------------------


def test_late_answers_are_dropped(live, serving, made):
    page = live.page
    late = threading.Event()
    serving.held = {f"/api/games/0/steps/{step}": late for step in (50, 60)}
    before = len(serving.asked)
    ten_on = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'PageDown', bubbles: true }))"
    page.evaluate(f"for (let i = 0; i < 6; i++) {ten_on}")
    wait_for_step(page, 100)
    with page.expect_event("requestfinished", lambda request: request.url.endswith("/steps/60")):
        late.set()
    let_draw(page)
    assert page.evaluate("steps.at(-1)") == 100
    data = _step(made, 100)
    assert float(page.locator(".row").first.get_attribute("data-value")) == data["actions"][0]["value"]
    assert page.locator("#figures dd").first.inner_text() == "400"
    assert shows(page.locator("#stage canvas"), made.frames["/api/games/0/pictures", 100])
    between = {f"/api/games/0/steps/{step}" for step in (70, 80, 90)}
    assert not between & set(serving.asked[before:])  # two were under way, the newest waited


def test_a_scrub_asks_for_little(live, serving):
    page = live.page
    released = threading.Event()
    serving.held = {f"/api/games/0/steps/{step}": released for step in range(119)}
    page.clock.install(time=0)
    page.clock.pause_at(60)  # so that the page gives up no question because its answer takes long
    before = len(serving.asked)
    box = page.locator("#timeline .slider").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20, steps=40)
    page.mouse.up()
    released.set()
    page.clock.resume()
    wait_for_step(page, 119)
    steps = [path for path in serving.asked[before:] if "/steps/" in path]
    assert len(steps) < 10  # of 120


def test_refusals_are_sentences_on_the_page(live, serving, made):
    page = live.page
    sentence = f"Step 60 is not to be had {HOSTILE}."
    serving.refused = {"/api/games/0/steps/60": sentence}
    page.evaluate("location.hash = '#game=0&step=60'")
    page.get_by_text(sentence).wait_for()
    assert page.locator("#decision").get_attribute("class") == "decision stale"
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 61)
    place, memory = _memory(made, 61)
    serving.refused = {f"/api/past/{memory['episode']}": "That episode is gone."}
    page.locator(".card").nth(place).click()
    page.locator("#side-then .note", has_text="That episode is gone.").wait_for()
    page.keyboard.press("Escape")
    wait_for(page, "!document.querySelector('#inspecting').hidden")


def test_a_lost_server_is_said_and_the_page_goes_on(browser, made):
    with serve(made, *page_document(title=TITLE)) as serving:
        watched = open_page(browser, serving.address, step=40)
        _wait(watched.page, lambda: "/api/games/0/steps/43" in serving.asked)  # so that it has step 41
        serving.gone = True
        page = watched.page
        _go_on_alone(page, made)


def _go_on_alone(page, made):
    page.keyboard.press("ArrowRight")  # was fetched ahead
    wait_for(page, "document.querySelector('#verdict').textContent !== ''")
    page.keyboard.press("End")
    page.locator("#notice", has_text="The server does not answer any more.").wait_for()
    page.keyboard.press("Home")
    for _ in range(4):
        page.keyboard.press("Shift+ArrowRight")
    wait_for_step(page, 40)
    assert shows(page.locator("#stage canvas"), made.frames["/api/games/0/pictures", 40])
    page.context.close()


def test_a_game_is_watched_while_it_grows(browser):
    made = make_up(steps=40, games=2)
    whole = made.answers["/api/games/1"]
    short = {key: value[:12] if isinstance(value, list) else value for key, value in whole.items()}
    made.answers["/api/run"]["recorded_games"] = 1
    made.answers["/api/games/1"] = {**short, "steps": 12, "done": False}
    with serve(made, *page_document(title="Growing")) as serving:
        watched = open_page(browser, serving.address)
        page = watched.page
        page.get_by_role("button", name="Play another game").click()
        wait_for(page, "document.querySelector('#transport .place').textContent === 'step 0 of 11 so far'")
        assert serving.posted == ["/api/games"]
        assert page.locator("#game").evaluate("select => select.selectedOptions[0].text") == "Game 2: being played"
        assert "12 steps" in page.locator("#progress").inner_text()
        assert page.locator("#another").is_disabled()
        page.keyboard.press("End")
        wait_for_step(page, 11)
        made.answers["/api/games/1"] = whole
        wait_for(page, "document.querySelector('#transport .place').textContent === 'step 11 of 39'")
        page.keyboard.press("End")
        wait_for_step(page, 39)
        assert not page.locator("#another").is_disabled()
        assert page.locator("#progress").inner_text() == ""
        page.locator(".card").first.click()
        page.locator("#comparison").wait_for()
        page.locator("#game").select_option("0")  # leaves the memory, too
        wait_for(page, "location.hash === '#game=0&step=0'")
        wait_for_step(page, 0)
        assert page.locator("#inspecting").is_visible()
        assert not page.locator("#comparison").is_visible()
        assert page.evaluate("inspector.shown()") == 0
        assert watched.complaints == []
        page.context.close()


def test_the_outcomes_of_all_games_are_told(browser):
    """Also of those that are not shown, as soon as they are over."""
    made = make_up(steps=10, games=3)
    last = made.answers["/api/games/2"]
    made.answers["/api/games/2"] = {**last, "steps": 0, "done": False}
    scores = [made.answers[f"/api/games/{game}"]["score"] for game in range(3)]
    with serve(made, *page_document(title="Outcomes")) as serving:
        page = open_page(browser, serving.address).page
        texts = "[...document.querySelectorAll('#game option')].map(option => option.text)"
        wait_for(page, f"{texts}[1].includes('score')")
        assert page.evaluate(texts)[2] == "Game 3"
        made.answers["/api/games/2"] = last
        wait_for(page, f"{texts}[2].includes('score')")
        assert [read(text.partition("score")[2]) for text in page.evaluate(texts)] == scores
        page.context.close()


def test_a_game_that_failed_says_why(browser):
    made = make_up(steps=10)
    made.answers["/api/games/0"]["error"] = f"The emulator is gone {HOSTILE}."
    with serve(made, *page_document(title="Failed")) as serving:
        page = open_page(browser, serving.address, step=3).page
        assert page.locator("#notice span").inner_text() == f"The emulator is gone {HOSTILE}."
        page.context.close()


def test_a_run_that_cannot_be_read_is_said(browser, made):
    with serve(made, *page_document(title=TITLE)) as serving:
        serving.refused = {"/api/run": "There is no run."}
        page = watch(browser).page
        page.goto(serving.address)
        assert not page.evaluate("window.inspector.ready")
        assert page.locator("#waiting").inner_text() == "There is no run."
        page.context.close()
