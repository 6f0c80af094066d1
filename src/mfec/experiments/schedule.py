"""When DQN begins to learn in a run: what is said of it, and what a run that goes on keeps of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mfec.config import SCHEDULE, DQNConfig, RunConfig, scheduled
from mfec.run_directory import RunDirectory


def begun_with(config: RunConfig, directory: RunDirectory) -> RunConfig:
    """The settings with what of DQN's schedule is not given as the run in this directory was begun with.

    A run that is given more frames goes on as it began, though a run of so many frames would have begun otherwise.
    """
    begun = vars(directory.read_config().dqn)
    unsaid = {name: begun[name] for name in SCHEDULE if getattr(config.dqn, name) is None}
    return replace(config, dqn=replace(config.dqn, **unsaid))


def about_schedule(given: DQNConfig, used: DQNConfig, steps: float, *, begun: bool = False) -> Iterator[str]:
    """What there is to say of the schedule of a run of so many steps; `begun`: whether it goes on."""
    assert used.replay_start is not None
    numbers = ", ".join(f"{name} {getattr(used, name):,}" for name in SCHEDULE)
    if used != scheduled(given, steps):
        yield f"schedule: {numbers}, as the run was begun; a new run of this length would have others"
    elif not begun and used != scheduled(given, float("inf")):
        first = SCHEDULE["replay_start"]
        yield (
            f"schedule: {numbers}; shrunk, as the run has {int(steps):,} steps and DQN would begin to learn after "
            f"{first:,} (--dqn.replay-start and the others say otherwise)"
        )
    if used.replay_start >= int(steps):
        yield (
            f"warning: this run ends before it begins to learn: it has {int(steps):,} steps, and --dqn.replay-start is "
            f"{used.replay_start:,}"
        )
