"""What the same actions lead to: on the same seed, with other random numbers, and in an observation met again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mfec.experiments.check.play import Limit, Maker, PlayedGame, Player

REPLAYED_STEPS = 2_000  # of random play that are repeated in each way: a game of Q*bert has 100 to 400
REPLAYED_GAMES = 20  # with other random numbers
SEEDS, SEED_STEPS, FEWEST_SEEDS = 20, 100, 5  # that begin alike: how many, for how long, and when they tell something


@dataclass(frozen=True)
class Determinism:
    """What the same actions lead to."""

    replayed_steps: int
    """Steps that were played again on the same seed."""
    other_environment: str
    """Where a second environment, made anew, came to something else; empty where it did not."""
    same_environment: str
    """Where the same environment did, begun again."""
    resets: int
    starts: int
    """Different first observations after so many resets, each on a seed of its own."""
    met_again: int
    """Times that an action was taken again in an observation where it had been taken before."""
    elsewhere: int
    """How often it then led to another observation, reward or end than the first time."""
    chance_tests: int
    """Games that were repeated with other random numbers once they had begun."""
    chance_found: int
    """How many of them came to something else under the same actions."""
    chance_steps: int
    """Steps of them until then."""
    alike_seeds: int
    """Seeds whose games begin with the same observation, on which the same actions were played."""
    alike_games: int
    """Different games that came of them."""

    @property
    def repeatable(self) -> bool:
        """Whether seed and actions make a game."""
        return not self.other_environment and not self.same_environment

    @property
    def elsewhere_share(self) -> float:
        """Share of the steps met again that led elsewhere."""
        return self.elsewhere / self.met_again if self.met_again else 0.0

    @property
    def chance_share(self) -> float:
        """Share of the steps that depend on chance, from how soon repeated games came to something else."""
        if not self.repeatable:  # then none was repeated
            return self.elsewhere_share
        return self.chance_found / self.chance_steps if self.chance_steps else float(self.every_seed_differs)

    @property
    def chance(self) -> bool:
        """Whether a step depends on chance."""
        return self.chance_found > 0 or self.every_seed_differs or not self.repeatable

    @property
    def every_seed_differs(self) -> bool:
        """Whether no two seeds make the same game: so it is where random numbers are the environment's own.

        A start that the observation does not show whole makes games differ, too, but seeds share it: in Q*bert fourteen
        first pictures hide thirty starts.
        """
        return self.alike_seeds >= FEWEST_SEEDS and self.alike_games == self.alike_seeds


def determinism_of(player: Player, make: Maker, seed: np.random.SeedSequence, limit: Limit) -> Determinism:
    """Play again what was played; `seed` is the one that the games came from."""
    steps, other = _repeat(player, Player(make, seed), limit)
    _, same = _repeat(player, player, limit)
    chance = _other_random_numbers(player, limit) if not other and not same else (0, 0, 0)
    seeds, different = _seeds_alike(player, limit)
    again, elsewhere = _met_again(player.games)
    return Determinism(
        replayed_steps=steps,
        other_environment=other,
        same_environment=same,
        resets=len(player.starts),
        starts=len(set(player.starts.values())),
        met_again=again,
        elsewhere=elsewhere,
        chance_tests=chance[0],
        chance_found=chance[1],
        chance_steps=chance[2],
        alike_seeds=seeds,
        alike_games=different,
    )


def _repeat(player: Player, another: Player, limit: Limit) -> tuple[int, str]:
    """Repeat the first games in another environment; returns how many steps, and where it came to something else."""
    steps = 0
    for number, game in enumerate(player.games, 1):
        if limit.of_steps(REPLAYED_STEPS).reached(steps):
            break
        repeated = another.repeat(game, limit.of_steps(REPLAYED_STEPS - steps))
        steps += repeated.steps
        if repeated.differs is not None:
            return steps, f"step {repeated.differs} of game {number}" if repeated.differs else f"start of game {number}"
    return steps, ""


def _other_random_numbers(player: Player, limit: Limit) -> tuple[int, int, int]:
    """Repeat games with other random numbers; returns how many, how many came to something else, and steps until then.

    At least one is repeated, whatever the time.
    """
    tests = found = steps = 0
    for i, game in enumerate(player.games[:REPLAYED_GAMES]):
        if i and limit.of_steps(REPLAYED_STEPS).reached(steps):
            break
        repeated = player.repeat(game, limit.of_steps(REPLAYED_STEPS - steps), chance=i)
        tests, found, steps = tests + 1, found + (repeated.differs is not None), steps + repeated.steps
    return tests, found, steps


def _seeds_alike(player: Player, limit: Limit) -> tuple[int, int]:
    """Play the actions of a game on seeds that begin as it does; returns how many there were, and different games."""
    starts = Counter(player.starts.values())
    game = max(player.games, key=lambda game: (starts[game.start], len(game.actions)))
    numbers = [number for number, start in player.starts.items() if start == game.start]
    seeds, different = 0, set()
    for number in numbers[:SEEDS]:
        outcomes = tuple(player.again(number, game.actions, limit.of_steps(SEED_STEPS)))
        if limit.reached(0):
            break
        seeds += 1
        different.add(outcomes)
    return seeds, len(different)


def _met_again(games: Sequence[PlayedGame]) -> tuple[int, int]:
    first: dict[tuple[bytes, int], tuple[bytes, float, bool]] = {}
    again = elsewhere = 0
    for game in games:
        for step, (seen, action) in enumerate(zip(game.seen, game.actions, strict=True)):
            outcome = game.outcome(step)
            before = first.setdefault((seen, action), outcome)
            if before is not outcome:
                again += 1
                elsewhere += before != outcome
    return again, elsewhere
