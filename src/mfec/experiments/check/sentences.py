"""A check in words: one line for each thing that was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mfec.experiments.check.determinism import Determinism
from mfec.experiments.check.learning import FRAMES
from mfec.experiments.check.measured import Games, Repeats, Rewards, Spaces
from mfec.experiments.check.rules import Measured
from mfec.units import show_bytes, show_hours

if TYPE_CHECKING:
    from mfec.experiments.check import Check

VERDICTS = {
    "good": "a good fit",
    "fair": "a fair fit",
    "poor": "a poor fit",
    "fails": "a run would fail here",
}


def sentences(check: Check) -> list[tuple[str, str]]:
    """Labels, and what is to be said under them; a label may come again."""
    said: list[tuple[str, str]] = []
    if check.spaces:
        said.append(("spaces", _spaces(check.spaces)))
    if check.measured:
        said += _measured(check.measured)
    for problem in check.problems:
        said.append(("problem" if problem.stops else "remark", problem.sentence))
    said.append(("verdict", VERDICTS[check.verdict]))
    said += [("because", reason) for reason in check.reasons]
    if check.command:
        said.append(("begin with", check.command))
    return said


def _measured(measured: Measured) -> list[tuple[str, str]]:
    spaces = measured.spaces
    return [
        ("determinism", _determinism(measured.determinism)),
        ("repeats", _repeats(measured.repeats)),
        ("games", _games(measured.games, spaces)),
        ("rewards", _rewards(measured.rewards, measured.games)),
        ("memory", _memory(measured)),
        ("speed", _speed(measured)),
        *([("learning", _learning(measured))] if measured.learning else []),
    ]


def _spaces(spaces: Spaces) -> str:
    kinds = {
        "number": f"a whole number, one of {spaces.values:,}, looked up in a table: none is near another",
        "picture": f"a picture of {' x '.join(map(str, spaces.shape))} bytes",
        "vector": f"{spaces.numbers} {spaces.dtype} numbers",
    }
    flattened = " made of all its parts" if spaces.flattened else ""
    frames = "a frame" if spaces.frame_skip == 1 else f"{spaces.frame_skip} frames"
    return (
        f"{spaces.observations}; the agent sees {kinds[spaces.kind]}{flattened} and has "
        f"{spaces.n_actions} actions. A step is {frames}. Embedding `auto` is {spaces.embedding}, with "
        f"{_count(spaces.dim, 'number')} in a state."
    )


def _determinism(own: Determinism) -> str:
    if own.repeatable:
        said = (
            f"the same seed and actions gave the same {own.replayed_steps:,} steps, in a second environment and in one "
            "that was begun again."
        )
    else:
        ways = [
            *([f"in a second environment ({own.other_environment})"] if own.other_environment else []),
            *([f"in the same one, begun again ({own.same_environment})"] if own.same_environment else []),
        ]
        said = f"the same seed and actions led elsewhere {' and '.join(ways)}."
    said += f" {own.resets:,} resets gave {_count(own.starts, 'different first observation')}."
    if own.chance_tests:
        said += (
            f" With other random numbers {own.chance_found:,} of {_count(own.chance_tests, 'repeated game')} came to "
        )
        said += "something else"
        said += f", after {1 / own.chance_share:,.3g} steps on average." if own.chance_found else "."
    if own.alike_seeds > 1:
        said += f" On {own.alike_seeds:,} seeds that begin alike the same actions made {own.alike_games:,} "
        said += "game." if own.alike_games == 1 else "different games."
    if not own.met_again:
        return f"{said} No action was taken twice in the same observation."
    return (
        f"{said} An action taken again in the same observation led elsewhere in {own.elsewhere:,} of "
        f"{own.met_again:,} cases ({own.elsewhere_share:.1%})."
    )


def _repeats(own: Repeats) -> str:
    return (
        f"{own.share:.1%} of {own.steps:,} steps were in an observation that an earlier game had seen "
        f"({own.share_late:.1%} in the last half). A thousand steps brought {own.new_early:.0f} new observations at "
        f"first and {own.new_late:.0f} later; {own.distinct:,} in all."
    )


def _games(own: Games, spaces: Spaces) -> str:
    if own.median_steps is None:
        said = f"none ended in {own.longest_steps:,} steps"
    else:
        frames = "" if spaces.frame_skip == 1 else f" ({own.median_steps * spaces.frame_skip:,.0f} frames)"
        said = (
            f"{own.ended:,} ended; half of them within {own.median_steps:,.0f} steps{frames}, the longest took "
            f"{own.longest_steps:,}"
        )
    limit = "an unknown time limit" if own.time_limit is None else f"the time limit of {own.time_limit:,} steps"
    if own.cut_off:
        said += f"; {limit} ended {own.cut_off_share:.0%} of them"
    else:
        said += "; no time limit is known" if own.time_limit is None else f"; {limit} ended none"
    return f"{said}. " + (f"A game has {own.lives} lives." if own.lives else "No lives are told.")


def _rewards(own: Rewards, games: Games) -> str:
    said = f"{own.lowest:g} to {own.highest:g}; {own.share:.2%} of the steps had one other than 0."
    if own.mean_score is None:
        return said
    return (
        f"{said} Random play scores {own.mean_score:.4g} a game, {own.lowest_score:g} to {own.highest_score:g}; "
        f"{own.positive:,} of {games.ended:,} games scored above 0 ({own.positive_share:.1%})."
    )


def _memory(measured: Measured) -> str:
    own = measured.memory
    each = measured.spaces.n_actions
    return (
        f"{own.bytes_per_entry} bytes an entry, {show_bytes(own.full)} when full ({each} x {own.capacity:,}); "
        f"{FRAMES:,} frames make about {own.entries:,} entries at most, "
        f"{show_bytes(min(own.most_bytes, own.entries * own.bytes_per_entry))}. This machine has {show_bytes(own.ram)}."
    )


def _speed(measured: Measured) -> str:
    said = f"{measured.steps_per_second:,.0f} steps a second in the environment alone"
    learning = measured.learning
    if learning is None:
        return f"{said}."
    return (
        f"{said}, {learning.steps_per_second:,.0f} with MFEC: {FRAMES:,} frames take "
        f"{_duration(3600 * learning.hours(measured.spaces))} or more, since look-ups take longer in a larger memory."
    )


def _learning(measured: Measured) -> str:
    own = measured.learning
    assert own is not None
    said = f"{own.frames:,} frames of MFEC with the settings below: {_count(own.games, 'game')}"
    if own.mean_late is not None:
        error = "" if own.error_late is None else f" +- {own.error_late:.2g}"
        said += f", the last {own.late_games:,} of them scored {own.mean_late:.4g}{error}"
        if measured.rewards.mean_score is not None:
            said += f" (random play {measured.rewards.mean_score:.4g})"
    if own.exact_share is not None:
        said += f". {own.exact_share:.0%} of its actions were exact matches: taken in that observation before"
    return f"{said}."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _duration(seconds: float) -> str:
    return _count(max(1, round(seconds / 60)), "minute") if seconds < 3600 else show_hours(seconds)
