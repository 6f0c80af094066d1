"""A game as one file: everything in it is what the server answers, and it is as small as it has to be."""

from __future__ import annotations

import base64
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.config import EnvConfig
from mfec.errors import MfecError
from mfec.experiments.train import train
from mfec.history.frame_codec import unpack_frames
from mfec.inspector.api import ENDPOINTS
from mfec.inspector.export import ExportError, export_game
from mfec.inspector.export_data import cost, in_base64
from mfec.inspector.export_frames import DEAR, FEW, FrameBudget, MemoryCount, PastFrames, cut
from mfec.inspector.inspection import Inspection, NotThere

HOSTILE = """<img src=x onerror=alert(1)>&"'"""


@pytest.fixture(scope="module")
def inspection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspection]:
    """Q*bert, with some games in memory and one that is played; whole games would take more than 100 steps."""
    out = tmp_path_factory.mktemp("runs") / HOSTILE
    config = RunConfig("qbert", 3000, 0, MFECConfig(capacity=4000), EnvConfig(max_frames=400))
    run = train(config, out, keep_frames=True, console=Console(file=io.StringIO()))
    opened = Inspection(run, epsilon=0.3)
    opened.finish(opened.play())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def whole(inspection: Inspection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the game with everything in it."""
    exported = export_game(inspection, 0, tmp_path_factory.mktemp("pages") / "page.html", max_mb=100)
    assert exported.left_out == []
    assert exported.nbytes == exported.file.stat().st_size
    return exported.file


def recorded(page: Path) -> dict[str, Any]:
    """The answers in a page, with the memories of every step written out as the page does it."""
    [data] = re.findall(r'<script type="application/json" id="recorded">([^<]*)</script>', page.read_text())
    answers: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(data, validate=True)))
    memories = answers.pop("memories")
    for path, answer in answers.items():
        for action in answer["actions"] if "/steps/" in path else ():
            action["neighbours"] = [
                {**memories[number], "distance": apart, **({"weight": weight[0]} if weight else {})}
                for number, apart, *weight in action["neighbours"]
            ]
    return answers


def frames_of(past: dict[str, Any], chunks: dict[int, bytes]) -> dict[int, np.ndarray]:
    """Frames by step, as the page finds them."""
    found = {}
    for chunk, data in chunks.items():
        first = chunk * past["picture"]["per_chunk"]
        for step, frame in enumerate(unpack_frames(data, tuple(past["picture"]["shape"])), first):
            found[step] = frame
    return found


# -- What is in the file ----------------------------------------------------------------------------------------------


def test_every_answer_is_the_servers(inspection, whole):
    answers = recorded(whole)
    addresses = {re.compile(re.sub(r"{\w+}", r"([0-9]+)", answer.address)): answer for answer in ENDPOINTS}
    kinds = set()
    for path, answer in answers.items():
        [(found, kind)] = [(each.fullmatch(path), kind) for each, kind in addresses.items() if each.fullmatch(path)]
        own = kind.read(inspection, *map(int, found.groups()))
        kinds.add(kind.address)
        if isinstance(own, bytes):
            assert base64.b64decode(answer, validate=True) == own, path
        elif path == "/api/run":
            assert answer == {**json.loads(json.dumps(own)), "live": False, "recorded_games": 1, "directory": HOSTILE}
        elif kind.address == "/api/past/{episode}":
            changed = ("available", "note")
            assert {k: v for k, v in answer.items() if k not in changed} == {
                k: v for k, v in own.items() if k not in changed
            }
        else:
            for action in own["actions"] if "/steps/" in path else ():
                for neighbour in action["neighbours"]:
                    neighbour["distance"] = pytest.approx(neighbour["distance"], rel=1e-4)
                    del neighbour["weight"]  # it is the same for all
                    neighbour["value"] = pytest.approx(neighbour["value"], rel=1e-5)
                    neighbour["position"] = pytest.approx(neighbour["position"], abs=0.0051)
            assert answer == own, path
    assert kinds == {answer.address for answer in ENDPOINTS}


def test_weights_are_in_the_file_where_they_differ(tmp_path):
    config = RunConfig("CartPole-v1", 400, agent=MFECConfig(k=4, kernel="inverse", capacity=500))
    inspection = Inspection(train(config, tmp_path / "run", console=Console(quiet=True)), epsilon=1.0)  # a short game
    inspection.finish(inspection.play())
    answers = recorded(export_game(inspection, 0, tmp_path / "page.html", max_mb=100).file)
    assert answers["/api/run"]["kernel"] == "inverse"
    seen = set()
    for step in range(answers["/api/games/0"]["steps"]):
        for own, written in zip(
            inspection.step(0, step)["actions"], answers[f"/api/games/0/steps/{step}"]["actions"], strict=True
        ):
            weights = [each["weight"] for each in own["neighbours"]]
            assert [each["weight"] for each in written["neighbours"]] == pytest.approx(weights, rel=1e-4)
            seen.update(weights)
    assert len(seen) > 20


def test_every_step_and_picture_of_the_game_is_there(inspection, whole):
    answers, game = recorded(whole), inspection.game(0)
    assert game["steps"] > 50
    assert {f"/api/games/0/steps/{step}" for step in range(game["steps"])} <= set(answers)
    for kind in ("picture", "observation"):
        chunks = -(-game["steps"] // game[kind]["per_chunk"])
        assert {f"/api/games/0/{kind}s/{chunk}" for chunk in range(chunks)} <= set(answers)
        assert f"/api/games/0/{kind}s/{chunks}" not in answers


def test_every_memory_can_be_seen_and_what_came_next(inspection, whole):
    answers = recorded(whole)
    skip = answers["/api/run"]["frame_skip"]
    seen = 0
    for step in range(answers["/api/games/0"]["steps"]):
        for action in answers[f"/api/games/0/steps/{step}"]["actions"]:
            for memory in action["neighbours"]:
                past, then = answers[f"/api/past/{memory['episode']}"], memory["frame"] // skip
                per_chunk = past["picture"]["per_chunk"]
                assert any(begin <= then < end for begin, end in past["available"])
                assert f"/api/past/{memory['episode']}/frames/{then // per_chunk}" in answers
                later = (then // per_chunk + 1) * per_chunk
                assert later >= past["steps"] or f"/api/past/{memory['episode']}/frames/{later // per_chunk}" in answers
                seen += 1
    assert seen > 500


def test_episodes_say_which_frames_are_in_the_file(inspection, whole):
    answers = recorded(whole)
    pasts = {path: answer for path, answer in answers.items() if re.fullmatch("/api/past/[0-9]+", path)}
    assert pasts
    for path, past in pasts.items():
        chunks = {
            chunk: base64.b64decode(answers[f"{path}/frames/{chunk}"])
            for chunk in range(100)
            if f"{path}/frames/{chunk}" in answers
        }
        steps = sorted(frames_of(past, chunks))
        assert steps == [step for begin, end in past["available"] for step in range(begin, end)]


def test_nothing_of_this_machine_is_in_the_file(inspection, whole):
    text = whole.read_text() + json.dumps(recorded(whole))
    place = Path(inspection.run()["directory"])
    assert str(place.parent) not in text
    assert place.parent.name not in text


def test_names_stay_text(whole):
    page = whole.read_text()
    assert "onerror" not in page
    assert page.count("<script") == 2
    assert recorded(whole)["/api/run"]["directory"] == HOSTILE


def test_another_game_is_the_first_one_of_its_file(inspection, tmp_path):
    number = inspection.play()
    export_game(inspection, number, tmp_path / "second.html")  # waits for it
    game = recorded(tmp_path / "second.html")["/api/games/0"]
    assert game == {**json.loads(json.dumps(inspection.game(number))), "game": 0}
    assert game["done"]
    assert game["seed"] != inspection.game(0)["seed"]


# -- Its size ---------------------------------------------------------------------------------------------------------


def test_what_matters_least_is_left_out_first(inspection, whole, tmp_path):
    size = whole.stat().st_size / 10**6
    before = set(recorded(whole))
    for share in (0.9, 0.75):
        exported = export_game(inspection, 0, tmp_path / "page.html", max_mb=share * size)
        assert exported.nbytes <= share * size * 10**6
        answers = recorded(exported.file)
        assert set(answers) < before
        gone = before - set(answers)
        assert all("/frames/" in path or "/pictures/" in path for path in gone)
        assert exported.left_out
        assert all(words in answers["/api/run"]["frames_note"] for words in exported.left_out)
        before = set(answers)


def test_frames_of_the_memories_that_chose_stay_longest(inspection, whole, tmp_path):
    answers = recorded(whole)
    base = sum(len(v) for k, v in answers.items() if "/frames/" in k)
    size = whole.stat().st_size - int(0.6 * base)
    exported = export_game(inspection, 0, tmp_path / "page.html", max_mb=size / 10**6)
    kept = recorded(exported.file)
    skip = answers["/api/run"]["frame_skip"]
    nearest, others = [], []
    for step in range(answers["/api/games/0"]["steps"]):
        answer = answers[f"/api/games/0/steps/{step}"]
        for action, estimate in enumerate(answer["actions"]):
            for rank, memory in enumerate(estimate["neighbours"]):
                past = answers[f"/api/past/{memory['episode']}"]
                chunk = memory["frame"] // skip // past["picture"]["per_chunk"]
                there = f"/api/past/{memory['episode']}/frames/{chunk}" in kept
                if action == answer["action"] and rank == 0:
                    nearest.append(there)
                elif action != answer["action"]:
                    others.append(there)
    assert np.mean(nearest) > np.mean(others)
    assert not all(others)


def test_colours_are_left_out_where_they_take_too_much(inspection, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("mfec.inspector.export.PICTURES_SHARE", 1e-6)
    exported = export_game(inspection, 0, tmp_path / "page.html", max_mb=100)
    answers = recorded(exported.file)
    assert answers["/api/games/0"]["picture"] is None
    assert answers["/api/games/0"]["observation"] is not None
    assert not any("/pictures/" in path for path in answers)
    assert exported.left_out == ["colours left out of the game's pictures"]


def test_a_game_that_cannot_fit(inspection, tmp_path):
    with pytest.raises(
        ExportError, match=r"the [0-9,]+ steps of this game take [0-9.]+ MB without .* --max-mb 0.05 is too"
    ):
        export_game(inspection, 0, tmp_path / "page.html", max_mb=0.05)
    assert list(tmp_path.iterdir()) == []


def test_episodes_to_play_again_are_not_without_number(inspection, tmp_path, monkeypatch):
    monkeypatch.setattr("mfec.inspector.export.MOST_REPLAYED", 1)
    again = inspection.past
    monkeypatch.setattr(inspection, "past", lambda episode: {**again(episode), "source": "recreated"})
    exported = export_game(inspection, 0, tmp_path / "page.html")
    assert len([path for path in recorded(exported.file) if re.fullmatch("/api/past/[0-9]+", path)]) == 1
    assert re.fullmatch("[0-9]+ episodes that would have to be played again left out", exported.not_made[-1])


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    """A game whose observations are numbers, and whose pictures are drawn for people alone."""
    pytest.importorskip("pygame")
    config = RunConfig("CartPole-v1", 600, agent=MFECConfig(k=4, capacity=500))
    run = train(config, tmp_path_factory.mktemp("cart"), console=Console(quiet=True))
    inspection = Inspection(run, epsilon=0.0)
    inspection.finish(inspection.play())
    return inspection


def test_where_memories_are_numbers_only_so_many_pictures_of_them_are_drawn(cart, tmp_path, monkeypatch):
    """The nearest memories of actions taken have theirs; the numbers of all are there."""
    drawn = []
    draw = cart.draw_past
    monkeypatch.setattr(cart, "draw_past", lambda episode, steps: drawn.extend(steps) or draw(episode, steps))
    export_game(cart, 0, tmp_path / "all.html")
    most = len(drawn) // 4
    drawn.clear()
    monkeypatch.setattr("mfec.inspector.export.MOST_DRAWN_BESIDE_NUMBERS", most)
    exported = export_game(cart, 0, tmp_path / "few.html")
    assert 0 < len(drawn) <= most
    assert exported.left_out == []
    [said] = exported.not_made
    assert re.fullmatch("frames of [0-9,]+ of [0-9,]+ memories left out", said)
    answers = recorded(exported.file)
    assert f"To write this file soon: {said}." in answers["/api/run"]["frames_note"]
    assert set(recorded(tmp_path / "all.html")) > set(answers)
    pasts = [answer for path, answer in answers.items() if re.fullmatch("/api/past/[0-9]+", path)]
    assert all(len(past["numbers"]) == past["steps"] for past in pasts)
    assert any(past["available"] for past in pasts)
    for path, answer in answers.items():
        for action in answer["actions"] if "/steps/" in path else ():
            assert all(len(memory["numbers"]) == 4 for memory in action["neighbours"])


def test_numbers_of_the_past_leave_room(cart, tmp_path, monkeypatch):
    monkeypatch.setattr("mfec.inspector.export.NUMBERS_SHARE", 0.0)
    exported = export_game(cart, 0, tmp_path / "page.html")
    answers = recorded(exported.file)
    pasts = [answer for path, answer in answers.items() if re.fullmatch("/api/past/[0-9]+", path)]
    assert pasts
    assert all(past["numbers"] is None for past in pasts)
    assert exported.left_out[0] == f"numbers of {len(pasts)} past episodes left out"


def test_large_frames_are_cut_into_small_chunks(inspection, monkeypatch):
    """Those of Q*bert are not, unless they are taken for it."""
    assert PastFrames(inspection, 1).about == inspection.past(1)
    monkeypatch.setattr("mfec.inspector.export_frames.DEAR", DEAR // 100)
    small, whole = PastFrames(inspection, 1), inspection.past(1)
    assert small.about["picture"] == {**whole["picture"], "per_chunk": FEW}
    chunks = {number: small.chunk(number) for number in range(-(-whole["steps"] // FEW))}
    kept = {number: inspection.past_frames(1, number) for number in range(-(-whole["steps"] // 32))}
    frames, all_frames = frames_of(small.about, chunks), frames_of(whole, kept)
    assert sorted(frames) == sorted(all_frames) == list(range(whole["steps"]))
    assert all((frames[step] == all_frames[step]).all() for step in frames)
    assert small.chunk(10_000) is None


@pytest.mark.parametrize("nbytes", [0, 1, 1000, 100_000])
def test_the_cost_of_a_chunk_is_not_guessed_too_low(nbytes):
    data = np.random.default_rng(0).bytes(nbytes)
    text = json.dumps({f"/api/past/{i}/frames/9": base64.b64encode(data).decode() for i in (123456789, 987654321)})
    assert in_base64(len(zlib.compress(text.encode(), 9))) <= 2 * cost([data]) <= 2.9 * nbytes + 300


def test_room_is_for_what_matters_most():
    room = FrameBudget(100)
    for weight in (5, 1, 4, 2, 3):
        if room.takes((weight, 0, 0, 0, 0)):
            room.put((weight, 0), (weight, 0, 0, 0, 0), b"", 30)
    assert sorted(place[0] for place in room.chunks()) == [3, 4, 5]
    room.shrink(20)
    assert sorted(place[0] for place in room.chunks()) == [4, 5]
    assert not room.takes((3, 0, 0, 0, 0))
    assert room.takes((4, 0, 0, 0, 0))


def test_the_order_of_chunks():
    votes = MemoryCount(frame_skip=4)
    near, far, other = ({"episode": 7, "frame": 4 * step} for step in (15, 35, 55))
    votes.count({"action": 1, "actions": [{"neighbours": [other]}, {"neighbours": [near, far]}]})
    past = {"episode": 7, "steps": 80, "picture": {"per_chunk": 10}, "available": [[0, 72]]}
    assert list(votes.chunks(past)) == [1, 3, 5, 2, 4, 6]
    assert list(votes.chunks({**past, "available": [[0, 40]]})) == [1, 3, 2]
    assert votes.chunks({**past, "picture": None}) == {}
    assert sorted(votes.memories(past)) == [15, 35, 55]


@pytest.mark.parametrize(("chunks", "available"), [
    ([0, 1, 2, 3], [[0, 35]]), ([3], [[30, 35]]), ([0, 2], [[0, 10], [20, 30]]), ([1, 2], [[10, 30]]), ([], []),
])  # fmt: skip
def test_what_is_available_after_a_cut(chunks, available):
    past = {"picture": {"per_chunk": 10}, "available": [[0, 35]], "note": "Kept."}
    assert cut(past, chunks)["available"] == available
    note = {0: "Kept. None of its frames are in this file.", 4: "Kept."}
    assert cut(past, chunks)["note"] == note.get(len(chunks), "Kept. Not all of its frames are in this file.")


# -- Where it goes ----------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_and_nothing_else_is_left(inspection, whole, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("before")
    export_game(inspection, 0, page, max_mb=100)
    assert page.read_bytes() == whole.read_bytes()
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.parametrize(("name", "max_mb", "sentence"), [
    ("missing/page.html", 14, "there is no directory"),
    ("page.pdf", 14, r"a page ends in \.html"),
    ("page", 14, r"a page ends in \.html"),
    ("folder.html", 14, "it is a directory"),
    ("page.html", 0, "--max-mb must be above 0"),
    ("page.html", float("nan"), "--max-mb must be above 0"),
])  # fmt: skip
def test_places_where_no_page_can_be(inspection, tmp_path, name, max_mb, sentence):
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(MfecError, match=sentence):
        export_game(inspection, 0, tmp_path / name, max_mb=max_mb)


def test_a_page_that_cannot_be_written_leaves_nothing(inspection, tmp_path, monkeypatch):
    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(MfecError, match="No space left on device"):
        export_game(inspection, 0, tmp_path / "page.html", max_mb=100)
    assert list(tmp_path.iterdir()) == []


def test_a_game_that_is_not_there(inspection, tmp_path):
    with pytest.raises(NotThere):
        export_game(inspection, 99, tmp_path / "page.html")
