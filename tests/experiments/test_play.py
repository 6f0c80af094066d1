"""A person plays: keys reach the player, a frame is a sixtieth of a second, and what happens is shown."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from mfec.envs.labyrinth import Labyrinth
from mfec.envs.labyrinth.levels import LEVELS, NOTHING
from mfec.envs.labyrinth.physics import STAND_STILL
from mfec.envs.labyrinth.world import HEADING, X, Y
from mfec.experiments.play import KEYS, Game, PlayError, Window, level_to_play, play

pygame = pytest.importorskip("pygame")

SIZE = 480, 360


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    """SDL without a display, and nothing left of it for other tests."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.init()
    yield
    pygame.quit()


@pytest.fixture
def said(monkeypatch) -> list[str]:
    """Everything that is written into the window."""
    from mfec.experiments.play_screen import Screen

    texts: list[str] = []
    write = Screen._write
    monkeypatch.setattr(
        Screen, "_write", lambda self, text, *a, **b: (texts.append(text), write(self, text, *a, **b))[1]
    )
    return texts


def open_window(name: str, seed: int = 0, size: tuple[int, int] = SIZE) -> Window:
    from mfec.experiments.play_screen import Screen

    level = level_to_play(name)
    return Window(Game(level, seed=seed), Screen(level, *size))


def press(*keys: int) -> None:
    for key in keys:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))


def let_go(*keys: int) -> None:
    for key in keys:
        pygame.event.post(pygame.event.Event(pygame.KEYUP, key=key))


def frames(window: Window, count: int) -> None:
    for _ in range(count):
        assert window.frame()


def pose(window: Window) -> np.ndarray:
    return window.game.simulation.players.poses[0]


def shown() -> np.ndarray:
    """What is in the window, (height, width, 3)."""
    return pygame.surfarray.array3d(pygame.display.get_surface()).transpose(1, 0, 2)


# -- The game ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEVELS)
def test_it_is_the_episode_of_the_environment(name):
    """The first of a seed and the next one, frame by frame."""
    env, game = Labyrinth(name, frame_skip=1), Game(LEVELS[name], seed=3)
    for seed in (3, None):
        observation, _ = env.reset(seed=seed)
        assert np.array_equal(game.seen_by_agent, observation)
        score = 0.0
        for action in np.random.default_rng(0).integers(8, size=30).repeat(10).tolist():
            observation, reward, *_ = env.step(action)
            assert game.step(action) == reward
            score += reward
            assert np.array_equal(game.seen_by_agent, observation)
        assert game.score == score
        assert game.frames_left == env.level.frames - 300
        game.begin_next()


def test_standing_still_lasts_until_the_time_is_up():
    game = Game(LEVELS["labyrinth_forage"])
    for _ in range(20 * 60):
        assert not game.ended
        game.step(STAND_STILL)
    assert game.time_is_up
    assert not game.all_eaten
    assert game.frames_left == 0


def test_a_negative_seed_is_refused():
    with pytest.raises(PlayError, match="a seed must not be negative, and -1 is"):
        Game(LEVELS["labyrinth_forage"], seed=-1)


# -- Keys -------------------------------------------------------------------------------------------------------------


def test_time_waits_for_the_first_key(said):
    window = open_window("labyrinth_forage")
    frames(window, 5)
    assert window.game.frames_left == 1200
    assert any("begin with your first step" in text for text in said)
    said.clear()
    press(pygame.K_UP)
    frames(window, 5)
    assert window.game.frames_left == 1195
    assert not any("begin with your first step" in text for text in said)


@pytest.mark.parametrize(("keys", "ahead", "turned"), [
    ([pygame.K_UP], 1, 0), ([pygame.K_w], 1, 0), ([pygame.K_DOWN], -1, 0), ([pygame.K_s], -1, 0),
    ([pygame.K_LEFT], 0, 1), ([pygame.K_q], 0, 1), ([pygame.K_RIGHT], 0, -1), ([pygame.K_e], 0, -1),
    ([pygame.K_w, pygame.K_LEFT], 1, 1), ([pygame.K_UP, pygame.K_DOWN], 0, 0),
])  # fmt: skip
def test_keys_move_the_player(keys, ahead, turned):
    window = open_window("labyrinth_forage")
    pose(window)[:] = 792.0, 664.0, 90.0, 0.0, 0.0
    press(*keys)
    frames(window, 6)
    assert np.sign(pose(window)[Y] - 664.0) == ahead
    assert pose(window)[HEADING] == pytest.approx(90.0 + turned * 132.0 * 6 / 60)


@pytest.mark.parametrize(("key", "side"), [
    (pygame.K_a, -1), (pygame.K_COMMA, -1), (pygame.K_d, 1), (pygame.K_PERIOD, 1),
])  # fmt: skip
def test_keys_step_aside(key, side):
    window = open_window("labyrinth_forage")
    pose(window)[:] = 792.0, 664.0, 90.0, 0.0, 0.0
    press(key)
    frames(window, 6)
    assert np.sign(round(pose(window)[X] - 792.0, 6)) == side
    assert pose(window)[HEADING] == 90.0


def test_every_key_is_a_name_that_pygame_knows():
    assert all(pygame.key.key_code(name) for name in KEYS)


def test_a_key_that_is_let_go_stops():
    window = open_window("labyrinth_forage")
    pose(window)[:] = 792.0, 664.0, 90.0, 0.0, 0.0
    press(pygame.K_LEFT)
    frames(window, 3)
    let_go(pygame.K_LEFT)
    frames(window, 3)
    assert pose(window)[HEADING] == pytest.approx(90.0 + 132.0 * 3 / 60)
    assert window.game.frames_left == 1194  # time goes on


def test_keys_are_let_go_when_another_window_is_chosen():
    window = open_window("labyrinth_forage")
    press(pygame.K_LEFT)
    frames(window, 1)
    heading = pose(window)[HEADING]
    pygame.event.post(pygame.event.Event(pygame.WINDOWFOCUSLOST))
    frames(window, 3)
    assert pose(window)[HEADING] == heading


@pytest.mark.parametrize("event", [
    pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE), pygame.event.Event(pygame.QUIT),
], ids=["escape", "closed"])  # fmt: skip
def test_escape_and_closing_end(event):
    window = open_window("labyrinth_forage")
    frames(window, 1)
    pygame.event.post(event)
    assert not window.frame()


def test_r_begins_the_episode_anew():
    window = open_window("labyrinth_double_t_maze", seed=5)
    first = window.game.simulation.players.copy()
    press(pygame.K_w)
    frames(window, 40)
    let_go(pygame.K_w)
    window.game.score = 7
    press(pygame.K_r)
    frames(window, 1)
    assert window.game.score == 0
    assert window.game.frames_left == 60 * 60 - 1
    for before, now in zip(first, window.game.simulation.players, strict=True):
        if before is not first.frames:
            assert np.array_equal(before, now)


# -- The end of an episode --------------------------------------------------------------------------------------------


def test_the_end_is_shown_and_a_key_begins_the_next_episode(said):
    window = open_window("labyrinth_forage", seed=1)
    start = pose(window).copy()
    press(pygame.K_SPACE)
    frames(window, 2)
    window.game.simulation.players.frames[0] = 20 * 60 - 2
    window.game.score = 3
    frames(window, 1)
    assert not window.game.ended
    assert "Time is up" not in said
    frames(window, 1)
    assert window.game.time_is_up
    assert {"Time is up", "Score 3", "next episode", "0 s left"} <= set(said)
    frames(window, 3)  # nothing happens any more
    assert window.game.frames_left == 0
    said.clear()
    press(pygame.K_RETURN)
    frames(window, 1)
    assert not window.game.ended
    assert window.game.frames_left == 20 * 60 - 1
    assert not np.array_equal(pose(window), start)
    assert "Time is up" not in said
    assert "Score 0" in said


def test_the_last_apple_ends_an_episode_and_its_reward_is_shown(said):
    window = open_window("labyrinth_forage")
    players = window.game.simulation.players
    players.fruit[0, 1:] = NOTHING
    players.poses[0, [X, Y]] = LEVELS["labyrinth_forage"].places[0]
    press(pygame.K_SPACE)
    frames(window, 1)
    assert window.game.all_eaten
    assert {"All apples are eaten", "Score 1"} <= set(said)


def test_a_reward_is_shown_for_a_while(said):
    window = open_window("labyrinth_forage_and_avoid")
    players = window.game.simulation.players
    players.poses[0, [X, Y]] = LEVELS["labyrinth_forage_and_avoid"].places[-1]
    press(pygame.K_SPACE)
    frames(window, 1)
    assert {"-1", "Score -1"} <= set(said)
    frames(window, 60)
    said.clear()
    frames(window, 1)
    assert "-1" not in said


# -- What is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharpness", [1.0, 0.5])
def test_the_view_has_the_colours_of_the_level(sharpness):
    """Also where it is drawn at half the resolution and enlarged."""
    window = open_window("labyrinth_forage")
    window.waiting = False
    window._screen.sharpness = sharpness
    pose(window)[:] = 792.0, 664.0, 90.0, 0.0, 0.0
    frames(window, 1)
    view = window.game.simulation.photograph(0, *SIZE).astype(int)
    middle = slice(100, 300)  # neither the bar nor the keys
    assert abs(shown()[middle].astype(int) - view[middle]).mean() < (0.01 if sharpness == 1.0 else 6.0)


def test_a_slow_machine_draws_less_sharply(monkeypatch):
    from mfec.experiments import play_screen

    window = open_window("labyrinth_forage")
    monkeypatch.setattr(play_screen, "DRAWING_SECONDS", 0.0)
    frames(window, play_screen.MEASURED)
    assert window._screen.sharpness == play_screen.SHARPNESS[1]
    frames(window, play_screen.MEASURED * len(play_screen.SHARPNESS))
    assert window._screen.sharpness == play_screen.SHARPNESS[-1]
    monkeypatch.setattr(play_screen, "DRAWING_SECONDS", 1.0)
    frames(window, play_screen.MEASURED)
    assert window._screen.sharpness == play_screen.SHARPNESS[-1]


def test_tab_shows_what_the_agent_sees():
    window = open_window("labyrinth_forage", size=(800, 600))
    press(pygame.K_SPACE, pygame.K_TAB)
    frames(window, 1)
    assert find_inset(shown(), window.game.seen_by_agent, 2) is not None
    press(pygame.K_TAB)
    frames(window, 1)
    assert find_inset(shown(), window.game.seen_by_agent, 2) is None


def find_inset(whole: np.ndarray, picture: np.ndarray, factor: int) -> tuple[int, int] | None:
    """Where in the window the enlarged grey picture lies; its rim is drawn over."""
    enlarged = picture.repeat(factor, 0).repeat(factor, 1)[1:-1, 1:-1, None].repeat(3, 2)
    h, w = enlarged.shape[:2]
    rows, columns = np.nonzero((whole[: -h + 1, : -w + 1] == enlarged[0, 0]).all(2))
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        if np.array_equal(whole[row : row + h, column : column + w], enlarged):
            return row, column
    return None


def test_m_shows_a_map_on_which_the_fruit_and_the_player_are():
    from mfec.experiments.play_screen import PLAYER

    window = open_window("labyrinth_forage")
    press(pygame.K_SPACE)
    frames(window, 1)
    assert not (shown() == PLAYER).all(2).any()
    press(pygame.K_m)
    frames(window, 1)
    where = np.argwhere((shown() == PLAYER).all(2)).mean(0)
    red = ((shown()[..., 0] > 120) & (shown()[..., 1] < 60))[int(SIZE[1] * 0.6) : -30, : SIZE[0] // 3].sum()
    pose(window)[[X, Y]] += 200.0, 100.0
    window.game.simulation.players.fruit[0] = NOTHING
    window.game.simulation.players.fruit[0, 0] = 0
    frames(window, 1)
    now = np.argwhere((shown() == PLAYER).all(2)).mean(0)
    assert now[1] > where[1]
    assert now[0] < where[0]  # north is up
    fewer = ((shown()[..., 0] > 120) & (shown()[..., 1] < 60))[int(SIZE[1] * 0.6) : -30, : SIZE[0] // 3].sum()
    assert fewer < red / 5


def test_the_task_the_keys_the_score_and_the_time_are_always_shown(said):
    window = open_window("labyrinth_double_t_maze")
    window.waiting = False
    frames(window, 1)
    assert {LEVELS["labyrinth_double_t_maze"].task, "Score 0", "60 s left"} <= set(said)
    assert any("Esc: end" in text for text in said)


# -- Opening a window -------------------------------------------------------------------------------------------------


def test_play_runs_until_escape_and_leaves_no_window():
    press(pygame.K_LEFT, pygame.K_ESCAPE)
    play("mfec/Labyrinth-DoubleTMaze-v0", seed=2, width=480, height=360)
    assert not pygame.display.get_init()


def test_a_frame_lasts_a_sixtieth_of_a_second(monkeypatch):
    ticks = []
    window = open_window("labyrinth_forage")
    monkeypatch.setattr(window._screen, "wait", lambda rate: (ticks.append(rate), press(pygame.K_ESCAPE)))
    window.run()
    assert ticks == [60]


def test_other_environments_cannot_be_played():
    for name in ("qbert", "CartPole-v1", "labyrinth"):
        with pytest.raises(PlayError, match=f"'{name}' cannot be played by hand; these can: labyrinth_forage, "):
            play(name)


def test_a_window_has_room_for_its_text():
    with pytest.raises(PlayError, match="at least 480 x 360 pixels, not 100 x 600"):
        play("labyrinth_forage", width=100)


def test_without_pygame_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ImportError, match=r"mfec play needs the extra `play`: pip install 'mfec\[play\]'"):
        play("labyrinth_forage")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_without_a_display_it_says_so(monkeypatch):
    for name in ("SDL_VIDEODRIVER", "WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(PlayError, match="there is no display to open a window on"):
        play("labyrinth_forage")
    pygame.display.quit()
    monkeypatch.setenv("DISPLAY", ":4711")  # nobody there: SDL would draw into memory
    with pytest.raises(PlayError, match="there is no display to open a window on"):
        play("labyrinth_forage")
    assert "SDL_VIDEODRIVER" not in os.environ


def test_a_driver_that_does_not_exist_is_a_sentence(monkeypatch):
    pygame.display.quit()
    monkeypatch.setenv("SDL_VIDEODRIVER", "no_such_driver")
    with pytest.raises(PlayError, match="no window can be opened: "):
        play("labyrinth_forage")
