"""Steps a second of the Labyrinth beside ViZDoom's: both on one core in turns, then our vector form on all cores.

A step is four frames and one grey picture of 84x84. ViZDoom draws at its smallest resolution, 160x120, and its picture
is reduced; ours has 2x2 samples to a pixel. ViZDoom is measured twice: through its Gymnasium environment, as ours is,
and its bare engine, drawing in grey. Every step takes an action at random, and ended episodes are followed by new ones.
Medians of the turns.

    python benchmarks/labyrinth.py --json labyrinth.json
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import gymnasium
import numpy as np
import vizdoom
from rich.console import Console
from rich.table import Table

from mfec.envs.labyrinth import LEVELS, Labyrinth, LabyrinthVector
from mfec.envs.vizdoom import make_vizdoom

TURN = 1_024  # steps in one turn
N_ENVS = 64

Stepper = Callable[[int], None]  # makes so many steps


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # ViZDoom's engine is a process of its own, and inherits this
    steppers: dict[str, Stepper] = {
        "VizdoomBasic-v1, Gymnasium": gymnasium_stepper("VizdoomBasic-v1"),
        "ViZDoom basic, bare engine": engine_stepper("basic"),
    }
    steppers |= {name: single_stepper(name) for name in LEVELS}
    on_one = in_turns(steppers, options.turns)
    os.sched_setaffinity(0, cores)
    on_all = in_turns({name: vector_stepper(name) for name in LEVELS}, options.turns)

    [(peer, peer_rate), (engine, engine_rate), *ours] = on_one.items()
    table = Table(title=f"agent steps a second at 84x84; one core, and {N_ENVS} environments on {len(cores)} cores")
    for column in ("environment", "one core", "/ Gymnasium", "/ engine", f"{len(cores)} cores", "/ one core"):
        table.add_column(column, justify="left" if column == "environment" else "right")
    table.add_row(peer, f"{peer_rate:,.0f}", "1.0", "", "", "")
    table.add_row(engine, f"{engine_rate:,.0f}", "", "1.0", "", "")
    rows: list[dict[str, Any]] = [{"environment": name, "one_core": on_one[name]} for name in (peer, engine)]
    for name, rate in ours:
        all_rate = on_all[name]
        ratios = rate / peer_rate, rate / engine_rate, all_rate / rate
        table.add_row(
            name, f"{rate:,.0f}", f"{ratios[0]:.1f}", f"{ratios[1]:.1f}", f"{all_rate:,.0f}", f"{ratios[2]:.2f}"
        )
        named = dict(zip(("to_vizdoom", "to_vizdoom_engine", "all_to_one_core"), ratios, strict=True))
        rows.append({"environment": name, "one_core": rate, "all_cores": all_rate, **named})
    Console(width=100).print(table)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"cores": len(cores), "environments": N_ENVS, "steps_a_second": rows}, file, indent=1)


def in_turns(steppers: dict[str, Stepper], turns: int) -> dict[str, float]:
    """Steps a second of each, the median of turns that follow each other round."""
    rates: dict[str, list[float]] = {name: [] for name in steppers}
    for step in steppers.values():
        step(TURN // 4)
    for _ in range(turns):
        for name, step in steppers.items():
            began = time.perf_counter()
            step(TURN)
            rates[name].append(TURN / (time.perf_counter() - began))
    return {name: statistics.median(own) for name, own in rates.items()}


def single_stepper(level: str) -> Stepper:
    """One environment of ours."""
    return env_stepper(Labyrinth(level))


def gymnasium_stepper(scenario: str) -> Stepper:
    """ViZDoom through Gymnasium, at its smallest resolution."""
    env = make_vizdoom(scenario)
    env.unwrapped.game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)  # type: ignore[attr-defined]
    return env_stepper(env)


def env_stepper(env: gymnasium.Env[Any, Any]) -> Stepper:
    """A Gymnasium environment."""
    actions = random_actions(int(env.action_space.n))  # type: ignore[attr-defined]
    env.reset(seed=0)

    def step(n: int) -> None:
        for action in actions[:n]:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return step


def vector_stepper(level: str) -> Stepper:
    """Many of ours in one vector environment."""
    env = LabyrinthVector(level, N_ENVS)
    actions = np.array(random_actions(8)).reshape(-1, N_ENVS)
    env.reset(seed=0)

    def step(n: int) -> None:
        for row in actions[: n // N_ENVS]:
            env.step(row)

    return step


def engine_stepper(scenario: str) -> Stepper:
    """ViZDoom's engine as it is fastest: no Gymnasium around it, its smallest screen, drawn in grey."""
    game = vizdoom.DoomGame()
    game.load_config(os.path.join(vizdoom.scenarios_path, f"{scenario}.cfg"))
    game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
    game.set_screen_format(vizdoom.ScreenFormat.GRAY8)
    game.set_window_visible(False)
    game.set_mode(vizdoom.Mode.PLAYER)
    game.set_render_hud(False)
    folder = tempfile.TemporaryDirectory()  # it writes files where it is started, at its end too
    atexit.register(folder.cleanup)
    atexit.register(game.close)
    with contextlib.chdir(folder.name):
        game.init()
    buttons = np.eye(game.get_available_buttons_size(), dtype=int).tolist()
    actions = random_actions(len(buttons))

    def step(n: int) -> None:
        for action in actions[:n]:
            if game.is_episode_finished():
                game.new_episode()
            game.make_action(buttons[action], 4)
            state = game.get_state()
            if state is not None:
                cv2.resize(state.screen_buffer, (84, 84), interpolation=cv2.INTER_AREA)

    return step


def random_actions(n: int) -> Sequence[int]:
    """Actions for a turn."""
    return np.random.default_rng(0).integers(n, size=TURN).tolist()  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
