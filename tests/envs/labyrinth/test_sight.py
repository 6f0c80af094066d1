"""What the 84x84 grey picture tells: a small network that learns from frames tells cues and fruit apart."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from mfec.envs.labyrinth import Labyrinth

from .scenes import APPLE, AVOID, GREEN, LEMON, MAZE, RED, begun, clear, look, put

VIEW = 35.0  # degrees off the middle at which something is well in view

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow(reason="trains a network")]

Scene = Callable[[Labyrinth, np.random.Generator], int]  # sets a scene up; says which of two it is


def cue_at_the_first_junction(env: Labyrinth, rng: np.random.Generator) -> int:
    """Seen from anywhere in the stem, in a trial of any place; red or green."""
    place = int(rng.integers(4))
    env.players.cues[0] = env.world.directions[place]
    env.players.fruit[0] = [APPLE if own == place else LEMON for own in range(4)]
    x, y = rng.uniform((-17.0, 15.0), (17.0, 128.0))
    put(env, x, y, math.degrees(math.atan2(192.0 - y, -x)) + rng.uniform(-VIEW, VIEW))
    assert env.players.cues[0, 0] in (RED, GREEN)
    return int(env.players.cues[0, 0] == GREEN)


def fruit_150_units_ahead(env: Labyrinth, rng: np.random.Generator) -> int:
    """Alone in the arena, in any of its places and seen from any side; an apple or a lemon."""
    clear(env)
    place = int(rng.integers(len(env.world.places)))
    kind = int(rng.choice([APPLE, LEMON]))
    env.players.fruit[0, place] = kind
    while True:
        bearing = rng.uniform(0.0, 2 * math.pi)
        x, y = env.world.places[place] - 150.0 * np.array([math.cos(bearing), math.sin(bearing)])
        if 15.0 < x < 1584.0 - 15.0 and 15.0 < y < 1328.0 - 15.0:
            put(env, x, y, math.degrees(bearing) + rng.uniform(-VIEW, VIEW))
            return int(kind == LEMON)


def frames(level: str, scene: Scene, n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """n pictures, and which of two each shows."""
    env = begun(level)
    rng = np.random.default_rng(seed)
    pictures, shown = np.empty((n, 1, 84, 84), np.float32), np.empty(n, np.int64)
    for i in range(n):
        shown[i] = scene(env, rng)
        pictures[i, 0] = look(env) / 255.0 - 0.5
    return torch.from_numpy(pictures), torch.from_numpy(shown)


def learn(pictures: torch.Tensor, shown: torch.Tensor, epochs: int) -> nn.Module:
    """Two small layers of filters, and the strongest answer of each filter anywhere in the picture."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=3),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 2),
    )
    steps = epochs * (len(pictures) // 64)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.randperm(len(pictures))[: len(pictures) // 64 * 64].view(-1, 64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(pictures[batch]), shown[batch]).backward()
            optimizer.step()
            schedule.step()
    return network


@pytest.mark.parametrize(("level", "scene"), [(MAZE, cue_at_the_first_junction), (AVOID, fruit_150_units_ahead)])
def test_a_small_network_tells_them_apart_on_frames_it_has_not_seen(level, scene):
    network = learn(*frames(level, scene, 2400, seed=0), epochs=8)
    pictures, shown = frames(level, scene, 2000, seed=1)
    with torch.no_grad():
        right = network(pictures).argmax(dim=1) == shown
    assert 0.4 < shown.float().mean() < 0.6, "guessing is of no use"
    assert right.float().mean() >= 0.99
