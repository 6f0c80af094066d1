"""The command `mfec`: a thin layer over the library. Heavy imports wait until a command needs them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import make_dataclass
from typing import Annotated, Any, Union

import tyro
from tyro.conf import OmitSubcommandPrefixes, subcommand

from mfec.cli.check import Check, run_check
from mfec.cli.envs import Envs, run_envs
from mfec.cli.evaluate import Evaluate, Plot, run_evaluate, run_plot
from mfec.cli.figure import Figure, run_figure
from mfec.cli.inspect import Inspect, run_inspect
from mfec.cli.play import Play, run_play
from mfec.cli.report import Report, run_report
from mfec.cli.reproduce import Reproduce, run_reproduce
from mfec.cli.stopping import STOPPED, show_their_traceback
from mfec.cli.train import Train, run_train, train_command
from mfec.cli.vae import Vae, VaeShow, VaeTrain, run_vae_show, run_vae_train
from mfec.command_line import gather
from mfec.errors import MfecError

__all__ = [
    "Check",
    "Envs",
    "Evaluate",
    "Figure",
    "Inspect",
    "Play",
    "Plot",
    "Report",
    "Reproduce",
    "Train",
    "Vae",
    "VaeShow",
    "VaeTrain",
    "main",
]


def command_for(given: Sequence[str]) -> Any:
    """One of the commands, under a name that can be shown where its options are refused.

    What `mfec train` takes depends on the algorithm that is given.
    """
    train = train_command(given) if given[:1] == ["train"] else Train
    commands: dict[str, Any] = {
        "train": train,
        "evaluate": Evaluate,
        "inspect": Inspect,
        "plot": Plot,
        "figure": Figure,
        "report": Report,
        "reproduce": Reproduce,
        "vae": Vae,
        "check": Check,
        "envs": Envs,
        "play": Play,
    }
    union: Any = Union[tuple(Annotated[own, subcommand(name)] for name, own in commands.items())]  # noqa: UP007
    return make_dataclass("Command", [("command", union)], frozen=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given = gather(sys.argv[1:] if arguments is None else arguments)
    _import_from_here()
    try:
        command = tyro.cli(
            command_for(given),
            prog="mfec",
            description="Model-free episodic control: train, evaluate, plot.",
            args=given,
            config=(OmitSubcommandPrefixes,),
        ).command
        return _run(command.action if isinstance(command, Vae) else command, given)
    except KeyboardInterrupt:
        return STOPPED
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


def _run(
    command: Train | Evaluate | Inspect | Plot | Figure | Report | Reproduce | VaeTrain | VaeShow | Check | Envs | Play,
    given: list[str],
) -> int:
    match command:
        case Train():
            return run_train(command, given)
        case Evaluate():
            return run_evaluate(command)
        case Inspect():
            return run_inspect(command)
        case Plot():
            return run_plot(command)
        case Figure():
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
