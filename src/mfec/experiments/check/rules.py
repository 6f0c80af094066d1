"""What to expect, and which settings to begin with: a table of rules over what was measured.

A rule is a condition, a sentence with the numbers behind it, what it says about the fit, and the settings that follow.
Fits are counted by the worst rule that holds. Thresholds stand below, each with where it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mfec.experiments.check.determinism import Determinism
from mfec.experiments.check.learning import Learning, Memory
from mfec.experiments.check.measured import Games, Repeats, Rewards, Spaces

Fit = Literal["good", "fair", "poor"]
FITS: tuple[Fit, ...] = ("good", "fair", "poor")  # from the best to the worst

# Random play comes back to what an earlier game saw in 1.00 of the steps of FrozenLake, 0.98 of Taxi, 0.27 of Q*bert,
# 0.13 of Ms. Pac-Man (the last half of 20,000 to 60,000 frames), in none of CartPole, LunarLander and the Labyrinth.
OFTEN = 0.1
HARDLY = 0.01
# Share of steps that depend on chance: half of them in slippery FrozenLake, 1 in 300 in Q*bert with sticky actions. In
# the former no setting helped: gamma 0.99, epsilon 0.05 and --update replace all scored below 0.1 (three seeds each).
OFTEN_BY_CHANCE = 0.1
# Share of the steps met again that led elsewhere though nothing is left to chance: 0.45 in Q*bert and 0.59 in
# Ms. Pac-Man, where one picture hides motion and the method does well all the same.
OFTEN_HIDDEN = 0.75
# Share of random games with a score above 0. Of MiniGrid-DoorKey-6x6's 4% to 6% succeed, and little was learned there
# in 100,000 steps, by whatever method (docs/when-it-works.md); FrozenLake's 2% are enough, which the short run shows.
SELDOM = 0.1
SPARSE = 0.01  # share of steps with a reward
# Steps of a game, from which on a discount is proposed; so it is where rewards are sparse. In FrozenLake without
# slipping, greedy play after 40,000 frames scored 1.0 with gamma 0.99 and 0.0 with 1 (three seeds each): without a
# discount a detour is worth as much as the way. In Acrobot 0.99 is better, too; in Taxi, a table whose every step is
# paid, 1 is (-67 against -193 after 100,000 steps, three seeds each: docs/when-it-works.md).
LONG = 100
VERY_LONG = 5_000  # steps of a game: a million of them are two hundred games, and something is learned after each
CUT_OFF = 0.5  # share of games that a time limit ends
ENOUGH_GAMES = 20  # to say that none of them succeeded
RAM_SHARE = 0.5  # of this machine's, for a full memory


@dataclass(frozen=True)
class Measured:
    """What rules are about."""

    spaces: Spaces
    determinism: Determinism
    repeats: Repeats
    games: Games
    rewards: Rewards
    steps_per_second: float
    """Of the environment alone, under random play."""
    memory: Memory
    learning: Learning | None = None


@dataclass(frozen=True)
class Rule:
    """One line of the table. `c` is what was measured."""

    when: Callable[[Measured], bool]
    sentence: str
    fit: Fit | None = None
    """What it says about the fit; None where it is about settings, or good to know."""
    settings: Mapping[str, Any] = field(default_factory=dict)


def _learns(c: Measured) -> bool:
    """Whether a short run of MFEC scored clearly above random play: then rewards are there to be found."""
    return c.learning is not None and c.learning.better_than(c.rewards) is True


RULES: tuple[Rule, ...] = (
    # -- Can it remember anything? ------------------------------------------------------------------------------------
    Rule(
        lambda c: c.games.ended == 0 and c.games.lives_lost == 0,
        "No game ended in {c.repeats.steps:,} steps. The memory is written when a game ends, so nothing would be "
        "learned: give the environment a time limit.",
        "poor",
    ),
    Rule(
        lambda c: c.games.ended >= ENOUGH_GAMES and c.rewards.different == 1,
        "All {c.games.ended:,} random games had the same score, {c.rewards.mean_score:g}: nothing yet tells one action "
        "from another, and the method has nothing to remember. Expect nothing until a game goes another way by chance.",
        "poor",
    ),
    Rule(
        lambda c: 0 < c.rewards.positive_share < SELDOM and c.rewards.lowest >= 0 and not _learns(c),
        "Only {c.rewards.positive:,} of {c.games.ended:,} random games scored above 0: the first successes come late, "
        "and until then there is nothing to remember.",
        "fair",
    ),
    Rule(
        lambda c: c.rewards.different > 1 and c.rewards.positive == 0 and not _learns(c),
        "None of {c.games.ended:,} random games scored above 0, but scores differ ({c.rewards.lowest_score:g} to "
        "{c.rewards.highest_score:g}): it can learn to lose less before it learns to win.",
        "fair",
    ),
    Rule(
        lambda c: c.games.ended > 0 and c.games.time_limit is None and c.games.longest_steps >= VERY_LONG,
        "A game took {c.games.longest_steps:,} steps, and something is learned only when one ends: a time limit "
        "(`max_episode_steps` of `gymnasium.make`) would teach sooner.",
        "fair",
    ),
    # -- Does what is remembered come back? ---------------------------------------------------------------------------
    Rule(
        lambda c: c.repeats.share_late >= OFTEN,
        "{c.repeats.share_late:.0%} of the steps are in an observation that an earlier game has seen: what worked "
        "there is known exactly, which is what the method is best at.",
        "good",
    ),
    Rule(
        lambda c: HARDLY <= c.repeats.share_late < OFTEN,
        "Only {c.repeats.share_late:.1%} of the steps are in an observation that an earlier game has seen: elsewhere "
        "the {c.spaces.kind}s that look alike must vote.",
        "fair",
    ),
    Rule(
        lambda c: c.repeats.share_late < HARDLY and c.spaces.kind == "vector",
        "{c.repeats.share_late:.1%} of the steps are in an observation that an earlier game has seen: exact matches "
        "will not help, only neighbours vote. Numbers of like size count alike: scale them if one is far larger.",
        "fair",
        {"kernel": "inverse"},
    ),
    Rule(
        lambda c: c.repeats.share_late < HARDLY and c.spaces.kind == "picture",
        "{c.repeats.share_late:.1%} of the steps show a picture that an earlier game has shown: only pictures that "
        "look alike vote, and likeness of pixels may mean little. A VAE or an embedding of your own may mean more.",
        "fair",
    ),
    Rule(
        lambda c: c.repeats.share_late < HARDLY and c.spaces.kind == "number",
        "{c.repeats.share_late:.1%} of the steps are in an observation that an earlier game has seen, and numbers have "
        "no neighbours: almost nothing that is remembered is used again.",
        "poor",
    ),
    # -- Does it lead to the same again? ------------------------------------------------------------------------------
    Rule(
        lambda c: not c.determinism.chance and c.determinism.elsewhere_share <= OFTEN_HIDDEN,
        "No chance was found in a step ({c.determinism.chance_tests} games repeated): the best return that ever was "
        "can be had again.",
        "good",
    ),
    Rule(
        lambda c: c.determinism.chance_share > OFTEN_BY_CHANCE and c.determinism.elsewhere > 0,
        "Steps depend on chance: an action taken again in the same observation led elsewhere "
        "{c.determinism.elsewhere_share:.0%} of the time. The memory keeps the best return that ever was, luck "
        "included, and overrates what was lucky once.",
        "poor",
    ),
    Rule(
        lambda c: (
            c.determinism.chance and not (c.determinism.chance_share > OFTEN_BY_CHANCE and c.determinism.elsewhere > 0)
        ),
        "Steps depend on chance, about {c.determinism.chance_share:.1%} of them: the memory keeps the best return that "
        "ever was, luck included.",
        "fair",
    ),
    Rule(
        lambda c: not c.determinism.chance and c.determinism.elsewhere_share > OFTEN_HIDDEN,
        "Nothing is left to chance, but an observation hides much: the same action in the same one led elsewhere "
        "{c.determinism.elsewhere_share:.0%} of the time. Show more of the state, such as the last observations.",
        "fair",
    ),
    Rule(
        lambda c: not c.determinism.repeatable,
        "The same seed and actions do not make the same game, so a run cannot be repeated, nor go on where it stopped.",
    ),
    # -- Settings -----------------------------------------------------------------------------------------------------
    Rule(
        lambda c: c.spaces.published,
        "Settings are those of `--recipe tuned`, measured on the paper's games.",
    ),
    Rule(
        lambda c: not c.spaces.published and c.games.longest_steps >= LONG and c.spaces.kind != "number",
        "Games are up to {c.games.longest_steps:,} steps long: a discount prefers what pays soon.",
        settings={"gamma": 0.99},
    ),
    Rule(
        lambda c: not c.spaces.published and c.rewards.share < SPARSE,
        "{c.rewards.share:.2%} of the steps are paid: a discount prefers the shorter way to the reward.",
        settings={"gamma": 0.99},
    ),
    Rule(
        lambda c: not c.spaces.published and c.determinism.starts == 1 and not c.determinism.chance,
        "All {c.determinism.resets:,} resets show the same first observation, and nothing is left to chance: greedy "
        "play would go the same way again and again, so it should try more.",
        settings={"epsilon": 0.05},
    ),
    Rule(
        lambda c: not c.spaces.published and c.games.cut_off_share >= CUT_OFF,
        "A time limit ends {c.games.cut_off_share:.0%} of the games: what comes after it is better estimated than "
        "taken for 0, which `--truncated auto` does here.",
    ),
    Rule(
        lambda c: c.memory.full > RAM_SHARE * c.memory.ram,
        "A full memory would not fit into this machine beside the rest.",
        settings={"capacity": 100_000},
    ),
    # -- Did it learn? ------------------------------------------------------------------------------------------------
    Rule(
        _learns,
        "In {c.learning.frames:,} frames it came from {c.rewards.mean_score:.4g} (random play) to "
        "{c.learning.mean_late:.4g} a game.",
        "good",
    ),
    Rule(
        lambda c: c.learning is not None and c.learning.better_than(c.rewards) is False,
        "In {c.learning.frames:,} frames it did not get clearly above random play ({c.learning.mean_late:.4g} a game, "
        "random {c.rewards.mean_score:.4g}); a longer run may.",
    ),
)


def rules_that_hold(measured: Measured) -> list[Rule]:
    """The lines of the table whose condition is true."""
    return [rule for rule in RULES if rule.when(measured)]


def settings_of(measured: Measured) -> dict[str, Any]:
    """The settings that follow; of two rules about one setting, the later counts."""
    return {name: value for rule in rules_that_hold(measured) for name, value in rule.settings.items()}


def advice(measured: Measured) -> tuple[Fit, tuple[str, ...]]:
    """The fit, which is that of the worst rule that holds, and a sentence for each rule: the worst first."""
    held = sorted(rules_that_hold(measured), key=lambda rule: FITS.index(rule.fit) if rule.fit else -1, reverse=True)
    fits = [rule.fit for rule in held if rule.fit]
    return fits[0] if fits else "fair", tuple(rule.sentence.format(c=measured) for rule in held)
