"""A user's callback in a run of ours."""

from __future__ import annotations

from typing import Any

from mfec.interface import Agent, Callback, CallbackList, Evaluation, Game, Steps


class Guarded(Callback):
    """Tells another callback everything; an exception of it ends training after the step, and is kept as `error`.

    There the tables have all games of the step and the agent is whole, so that the run can be saved. An exception that
    came through at once could leave a game of the same step untold, and the tables without it.
    """

    def __init__(self, member: Callback) -> None:
        self._member = member
        self.off_the_clock = member.off_the_clock
        self.error: Exception | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "callbacks":  # the list that both belong to
            self._member.callbacks = value

    def on_start(self, agent: Agent, total_frames: int) -> None:
        """Tell it; nothing has happened yet that could be lost."""
        self._member.on_start(agent, total_frames)

    def on_steps(self, agent: Any, steps: Steps) -> None:
        """Tell it."""
        self._tell("on_steps", agent, steps)

    def on_game(self, agent: Agent, game: Game) -> None:
        """Tell it."""
        self._tell("on_game", agent, game)

    def on_progress(self, agent: Agent, row: dict[str, Any]) -> None:
        """Tell it."""
        self._tell("on_progress", agent, row)

    def on_evaluation(self, agent: Agent, evaluation: Evaluation) -> None:
        """Tell it."""
        self._tell("on_evaluation", agent, evaluation)

    def on_step(self, agent: Agent) -> bool | None:
        """Tell it, and stop where it says so or has failed."""
        answer: bool | None = self._tell("on_step", agent)
        return answer if self.error is None else False

    def check(self) -> None:
        """Ask it."""
        self._member.check()

    def flush(self) -> None:
        """Tell it."""
        self._tell("flush")

    def on_end(self, agent: Agent) -> None:
        """Tell it."""
        self._tell("on_end", agent)

    def close(self) -> None:
        """Tell it."""
        self._member.close()

    def _tell(self, method: str, *arguments: Any) -> Any:
        if self.error is not None:
            return None
        try:
            return getattr(self._member, method)(*arguments)
        except Exception as error:  # a user's code may raise anything
            self.error = error
            return None


def guarded(callbacks: CallbackList) -> list[Guarded]:
    """Callbacks of a user's, each guarded."""
    return [Guarded(member) for member in callbacks.members]
