"""A made-up run with made-up games, as the inspector answers about them, and a server of it."""

from __future__ import annotations

import base64
import json
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from ..waiting import PATIENCE

HOSTILE = "<img src=x onerror=alert(1)>"
NAMES = ("noop", "fire", "up", "right", "left", "down")
FRAME_SKIP = 4
PER_CHUNK = {"pictures": 5, "observations": 64, "frames": 32}


@dataclass
class MadeUp:
    """Answers by their path: dictionaries, and chunks of frames as bytes; and the frames that are in them."""

    answers: dict[str, Any] = field(default_factory=dict)
    frames: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)

    def recorded(self) -> bytes:
        """What goes into an exported page."""
        plain = {k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in self.answers.items()}
        run = {**self.answers["/api/run"], "live": False}
        return zlib.compress(json.dumps({**plain, "/api/run": run}).encode(), 1)

    def thumbnails(self, places: list[tuple[int, int]]) -> dict[str, Any]:
        found = [(f"/api/past/{episode}/frames", frame // FRAME_SKIP) in self.frames for episode, frame in places]
        kept = [
            self.frames[f"/api/past/{episode}/frames", frame // FRAME_SKIP]
            for (episode, frame), there in zip(places, found, strict=True)
            if there
        ]
        return {
            "shape": list(kept[0].shape) if kept else None,
            "found": found,
            "notes": [
                "" if there else f"Frames of episode {place[0]} were not kept."
                for there, place in zip(found, places, strict=True)
            ],
            "frames": base64.b64encode(zlib.compress(b"".join(map(np.ndarray.tobytes, kept)))).decode(),
        }


def make_up(
    *,
    n_actions: int = 6,
    k: int = 11,
    kernel: str = "mean",
    steps: int = 300,
    episodes: int = 8,
    games: int = 1,
    numbers: bool = False,
    environment: str = HOSTILE,
    directory: str = "runs/<b>bold</b>",
) -> MadeUp:
    """A dot that moves in the plane. Episode 3 has no frames, episode 4 only its first 64 steps.

    With `numbers` there are no pictures: an observation is where the dot is.
    """
    rng = np.random.default_rng(0)
    made = MadeUp()
    actions = [NAMES[i] if i < len(NAMES) else f"{NAMES[i % 6]} and {NAMES[1 + i % 5]}" for i in range(n_actions)]
    actions[1] = HOSTILE if environment == HOSTILE else actions[1]
    lengths = {episode: int(rng.integers(90, 300)) for episode in range(1, episodes + 1)}
    for episode, length in lengths.items():
        _past(made, episode, length, n_actions, rng, numbers=numbers)
    entries = [int(n) for n in rng.integers(3000, 9000, n_actions)]
    values = rng.gamma(2, 300, 900)
    made.answers["/api/run"] = {
        "environment": environment, "directory": directory, "frames": 300_000, "games": 212,
        "actions": actions, "first_action": 0, "frame_skip": FRAME_SKIP, "k": k, "kernel": kernel, "gamma": 1.0,
        "exact_matches": True, "n_step": None,
        "epsilon": 0.005, "capacity": 1_000_000, "embedding": "random_projection", "index": "exact", "fps": 15.0,
        "numbers": 4 if numbers else None, "shown_numbers": 128, "numbers_kept": numbers,
        "entries": entries,
        "frames_note": "Frames of 120 of 212 episodes were kept (3.1 MB); others are re-created.",
        "live": True, "recorded_games": games,
        "map": {
            "x": rng.normal(0, 3, 900).round(3).tolist(), "y": rng.normal(0, 2, 900).round(3).tolist(),
            "value": values.round(2).tolist(), "action": rng.integers(n_actions, size=900).tolist(),
            "share": [0.41, 0.17],
        },
    }  # fmt: skip
    for game in range(games):
        _game(made, game, steps, lengths, n_actions, k, kernel, rng, numbers=numbers)
    return made


def _past(made: MadeUp, episode: int, length: int, n_actions: int, rng: np.random.Generator, *, numbers: bool) -> None:
    kept = 0 if numbers or episode == 3 else 64 if episode == 4 else length
    rewards = np.where(rng.random(length) < 0.08, 25.0, 0.0)
    path = f"/api/past/{episode}/frames"
    if kept:
        _put(made, path, np.stack([_observation(*_dot(episode, step)) for step in range(kept)]), PER_CHUNK["frames"])
    made.answers[f"/api/past/{episode}"] = {
        "episode": episode, "steps": length, "begun": 1000 * episode,
        "actions": rng.integers(n_actions, size=length).tolist(), "rewards": rewards.tolist(), "ended": True,
        "source": "kept" if kept else "none",
        "note": "Kept while training." if kept else f"Frames were not kept {HOSTILE}.",
        "picture": {"shape": [84, 84], "per_chunk": PER_CHUNK["frames"]} if kept else None,
        "available": [[0, kept]] if kept else [], "drawn": False, "numbers": None,
    }  # fmt: skip


def _game(
    made: MadeUp,
    game: int,
    steps: int,
    lengths: dict[int, int],
    n_actions: int,
    k: int,
    kernel: str,
    rng: np.random.Generator,
    *,
    numbers: bool,
) -> None:
    base = f"/api/games/{game}"
    rewards = np.where(rng.random(steps) < 0.06, rng.choice([25.0, 100.0, -10.0], steps), 0.0)
    explored = rng.random(steps) < 0.05
    explored[5:7] = True
    score, look_ups, exact_look_ups, chosen_exact = 0.0, 0, 0, 0
    taken, exact_taken = [], []
    for step in range(steps):
        estimates = [_estimate(action, step, lengths, k, kernel, rng, numbers=numbers) for action in range(n_actions)]
        if step == 2:  # never tried
            estimates[min(4, n_actions - 1)] = {"value": None, "source": "infinity", "neighbours": []}
        if step == 3:  # too few memories for an average
            near = {**estimates[-1]["neighbours"][0], "distance": 0.5, "weight": 0.0}
            estimates[-1] = {"value": 0.0, "source": "zero", "neighbours": [near]}
        values = [np.inf if each["value"] is None else each["value"] for each in estimates]
        highest = [action for action, value in enumerate(values) if value == max(values)]
        others = [action for action in range(n_actions) if action not in highest]
        action = int(rng.choice(others)) if explored[step] else highest[0]
        look_ups, exact_look_ups = look_ups + n_actions, exact_look_ups + sum(map(_is_exact, estimates))
        chosen_exact += _is_exact(estimates[action])
        ages = [each["age"] for estimate in estimates for each in estimate["neighbours"]]
        made.answers[f"{base}/steps/{step}"] = {
            "step": step, "frame": step * FRAME_SKIP, "action": action, "explored": bool(explored[step]),
            "highest": highest, "reward": float(rewards[step]), "score": score,
            "position": rng.normal(0, 2, 2).round(3).tolist(),
            "numbers": [0.01 * step, -0.2, 3.0, 1e-5] if numbers else None,
            "actions": estimates,
            "figures": {
                "exact_share": exact_look_ups / look_ups, "exact_chosen_share": chosen_exact / (step + 1),
                "used": len(ages), "age_median": float(np.median(ages)), "age_youngest": min(ages),
                "age_oldest": max(ages),
            },
        }  # fmt: skip
        score += float(rewards[step])
        taken.append(action)
        exact_taken.append(int(_is_exact(estimates[action])))
    if not numbers:
        _put(
            made,
            f"{base}/pictures",
            np.stack([_picture(*_dot(99, step)) for step in range(steps)]),
            PER_CHUNK["pictures"],
        )
        seen = np.stack([_observation(*_dot(99, step)) for step in range(steps)])
        _put(made, f"{base}/observations", seen, PER_CHUNK["observations"])
    made.answers[base] = {
        "game": game, "seed": 1234 + game, "done": True, "steps": steps, "epsilon": 0.005,
        "rewards": rewards.tolist(), "actions": taken, "explored": explored.astype(int).tolist(),
        "exact": exact_taken, "score": score,
        "picture": None if numbers else {"shape": [105, 80, 3], "per_chunk": PER_CHUNK["pictures"]},
        "observation": None if numbers else {"shape": [84, 84], "per_chunk": PER_CHUNK["observations"]},
        "cards": "numbers" if numbers else "frames",
    }  # fmt: skip


def _estimate(
    action: int, step: int, lengths: dict[int, int], k: int, kernel: str, rng: np.random.Generator, *, numbers: bool
) -> dict[str, Any]:
    exact = bool(rng.random() < 0.4)
    near = np.sort(rng.gamma(2, 0.2, 1 if exact else k))
    weights = np.ones_like(near) if exact or kernel == "mean" else 1.0 / (near**2 + 0.001)
    weights /= weights.sum()
    neighbours = []
    for distance, weight in zip(near, weights, strict=True):
        episode = int(rng.choice(list(lengths)))
        neighbours.append({
            "id": int(rng.integers(1_000_000)), "value": float(np.float32(rng.normal(700, 500))),
            "distance": 0.0 if exact else float(distance), "weight": float(weight),
            "episode": episode, "frame": int(rng.integers(lengths[episode])) * FRAME_SKIP,
            "matched": int(rng.integers(20)), "age": int(rng.integers(300_000)),
            "position": rng.normal(0, 2, 2).round(3).tolist(),
            "numbers": rng.normal(0, 1, 4).round(4).tolist() if numbers else None,
        })  # fmt: skip
    if step == 3 and action == 0:  # from a memory without dates
        neighbours[0].update(episode=None, frame=None, age=0)
    value = float(weights @ [each["value"] for each in neighbours])
    source = "exact" if exact else "mean" if kernel == "mean" else "weighted_mean"
    return {"value": value, "source": source, "neighbours": neighbours}


def _is_exact(estimate: dict[str, Any]) -> bool:
    return bool(estimate["source"] == "exact")


def _dot(episode: int, step: int) -> tuple[int, int, int]:
    """Where the dot of an episode is, and how bright."""
    turn = step / 23 + episode
    return int(40 + 30 * np.sin(turn)), int(40 + 30 * np.cos(1.3 * turn)), 100 + 17 * (step % 8)


def _observation(row: int, column: int, bright: int) -> np.ndarray:
    frame = np.zeros((84, 84), np.uint8)
    frame[::12] = 30
    frame[row : row + 9, column : column + 9] = bright
    return frame


def _picture(row: int, column: int, bright: int) -> np.ndarray:
    frame = np.full((105, 80, 3), (20, 30, 60), np.uint8)
    frame[::15] = (40, 60, 110)
    frame[row : row + 9, column : column + 9] = (255, bright, 40)
    return frame


def _put(made: MadeUp, path: str, frames: np.ndarray, per_chunk: int) -> None:
    made.frames.update({(path, step): frame for step, frame in enumerate(frames)})
    for chunk in range(-(-len(frames) // per_chunk)):
        some = frames[chunk * per_chunk : (chunk + 1) * per_chunk].copy()
        some[1:] ^= some[:-1].copy()
        made.answers[f"{path}/{chunk}"] = zlib.compress(b"\0" + some.tobytes(), 1)


@dataclass
class Serving:
    """A server of made-up answers, what it was asked for, and how it is to misbehave."""

    address: str
    made: MadeUp
    asked: list[str] = field(default_factory=list)
    held: dict[str, threading.Event] = field(default_factory=dict)  # answers that wait for one, by path
    refused: dict[str, str] = field(default_factory=dict)  # the sentence, by path
    posted: list[str] = field(default_factory=list)
    gone: bool = False  # whether it answers nothing any more


@contextmanager
def serve(made: MadeUp, document: str, policy: str) -> Iterator[Serving]:
    """Serve the page and its answers on this machine, with a thread for each request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if serving.gone:
                self.close_connection = True
                return
            serving.asked.append(self.path)
            if url.path in serving.held:
                serving.held[url.path].wait(PATIENCE)
            if url.path == "/":
                self._answer(document.encode(), "text/html; charset=utf-8")
            elif url.path in serving.refused:
                self._answer(json.dumps({"error": serving.refused[url.path]}).encode(), "application/json", 404)
            elif url.path == "/api/thumbnails":
                places = [place.split(":") for place in parse_qs(url.query)["at"][0].split(",")]
                found = made.thumbnails([(int(episode), int(frame)) for episode, frame in places])
                self._answer(json.dumps(found).encode(), "application/json")
            elif isinstance(made.answers.get(url.path), bytes):
                self._answer(made.answers[url.path], "application/octet-stream")
            elif url.path in made.answers:
                self._answer(json.dumps(made.answers[url.path]).encode(), "application/json")
            else:
                self._answer(json.dumps({"error": f"{url.path} is not there."}).encode(), "application/json", 404)

        def do_POST(self) -> None:
            serving.posted.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(json.dumps({"game": 1}).encode(), "application/json")

        def _answer(self, body: bytes, kind: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        serving = Serving(f"http://127.0.0.1:{server.server_address[1]}/", made)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield serving
        server.shutdown()
        thread.join()
