"""The command `mfec`: a thin layer over the library. Heavy imports wait until a command needs them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from mfec import __version__
from mfec.cli.check import Check, run_check
from mfec.cli.envs import Envs, run_envs
from mfec.cli.evaluate import Evaluate, run_evaluate
from mfec.cli.figure import Figure1, Figure2, MatchRates, Table, run_figure
from mfec.cli.inspect import Inspect, run_inspect
from mfec.cli.play import Play, run_play
from mfec.cli.plot import Plot, run_plot
from mfec.cli.quiet import others_silenced, without_windows
from mfec.cli.reading import Commands, read_command
from mfec.cli.report import Report, run_report
from mfec.cli.reproduce import Reproduce, run_reproduce
from mfec.cli.stopping import STOPPED, show_their_traceback
from mfec.cli.train import Train, run_train, train_command
from mfec.cli.vae import VaeShow, VaeTrain, run_vae_show, run_vae_train
from mfec.command_line import gather
from mfec.errors import MfecError

__all__ = [
    "Check",
    "Envs",
    "Evaluate",
    "Figure1",
    "Figure2",
    "Inspect",
    "MatchRates",
    "Play",
    "Plot",
    "Report",
    "Reproduce",
    "Table",
    "Train",
    "VaeShow",
    "VaeTrain",
    "main",
]

PIPE_CLOSED = 141  # what a shell expects of a program whose reader has gone


def commands_for(given: Sequence[str]) -> Commands:
    """All commands. What `mfec train` takes depends on the algorithm that is given."""
    figures = {"figure1": Figure1, "figure2": Figure2, "match_rates": MatchRates, "table": Table}
    return Commands(
        "Model-free episodic control: train, evaluate, plot. `mfec COMMAND --help` shows the options of a command, "
        "`mfec --version` the version.",
        {
            "train": train_command(given) if given[:1] == ["train"] else Train,
            "evaluate": Evaluate,
            "inspect": Inspect,
            "plot": Plot,
            "figure": Commands("Draw the paper's figures, or make its table, from run directories.", {**figures}),
            "report": Report,
            "reproduce": Reproduce,
            "vae": Commands(
                "Train variational autoencoders, and look at what they see.", {"train": VaeTrain, "show": VaeShow}
            ),
            "check": Check,
            "envs": Envs,
            "play": Play,
        },
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given = gather(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        print(f"mfec {__version__}")
        return 0
    _import_from_here()
    try:
        command = read_command(commands_for(given), given)
        with others_silenced(), contextlib.nullcontext() if isinstance(command, Play) else without_windows():
            return _run(command, given)
    except KeyboardInterrupt:
        return STOPPED
    except BrokenPipeError:  # of `mfec envs | head`: nobody reads on, also not what Python has yet to write
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (MfecError, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        if os.environ.get("MFEC_TRACEBACK"):
            raise
        show_their_traceback(error)
        print(f"mfec: {error}", file=sys.stderr)
        return 1


def _import_from_here() -> None:
    """Let environments, wrappers and the like be imported from the current directory.

    It comes last, so that no file in it takes the place of a package that is installed.
    """
    with contextlib.suppress(OSError):  # it may be gone
        here = os.getcwd()
        if here not in sys.path:
            sys.path.append(here)


def _run(command: Any, given: list[str]) -> int:
    match command:
        case Train():
            return run_train(command, given)
        case Evaluate():
            return run_evaluate(command)
        case Inspect():
            return run_inspect(command)
        case Plot():
            return run_plot(command)
        case Figure1() | Figure2() | MatchRates() | Table():
            return run_figure(command)
        case Report():
            return run_report(command)
        case Reproduce():
            return run_reproduce(command, given)
        case VaeTrain():
            return run_vae_train(command, given)
        case VaeShow():
            return run_vae_show(command)
        case Check():
            return run_check(command)
        case Envs():
            return run_envs(command)
        case Play():
            return run_play(command)
    raise TypeError(f"{type(command).__name__} is no command")
