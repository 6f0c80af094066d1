"""`mfec vae train` and `mfec vae show`: variational autoencoders, and what they see."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from mfec.canonical_names import canonical_name
from mfec.cli.stopping import say_how_to_resume
from mfec.config import AgentConfig, DeviceName, EnvConfig, VAEConfig, folder_of

if TYPE_CHECKING:
    from rich.console import Console

    from mfec.embeddings import VAE
    from mfec.experiments.vae_directory import VAEJob

SHOWN_FRAMES = 2_000  # of which some are drawn beside what a VAE makes of them


@dataclass(frozen=True)
class VaeTrain:
    """Train a VAE on frames of a random policy. Defaults are the recipe of the paper's appendix."""

    envs: Annotated[Positional[tuple[str, ...]], arg(metavar="ENV [ENV ...]")]
    """Environments that show pictures; several are trained side by side on a GPU, in OUT/ENV."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the encoder goes; runs/vae/ENV unless given."""
    data: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the frames lie, or will lie (7 GB for a million); OUT unless given."""
    seed: int = 0
    """Makes the VAE: games, actions, first weights, minibatches."""
    resume: bool = False
    """Go on from where a training in OUT was stopped; begin where there is none."""
    device: DeviceName = AgentConfig.device
    """Where to train: cpu, or cuda for an NVIDIA GPU."""
    frame_stack: int = EnvConfig.frame_stack
    """Atari: frames in an observation."""
    sticky_actions: float = EnvConfig.sticky_actions
    """Atari: chance, in each frame, that the last action is repeated."""
    env_kwargs: tuple[str, ...] = ()
    """Keywords for the environment: is_slippery=false size=8."""
    wrappers: Annotated[tuple[str, ...], arg(name="wrapper", metavar="MODULE:WRAPPER [...]")] = ()
    """Wrappers around each environment, the first one innermost."""
    recipe: OmitArgPrefixes[VAEConfig] = field(default_factory=VAEConfig)


@dataclass(frozen=True)
class VaeShow:
    """Show what a VAE makes of frames that it was not trained on: their costs, and a picture of some of them."""

    env: Annotated[Positional[str], arg(metavar="ENV")]
    """Environment whose frames are shown."""
    vae: Annotated[str | None, arg(metavar="DIR|NAME")] = None
    """A directory that `mfec vae train` wrote, or the name of an encoder that ships; that of ENV unless given."""
    out: Path = Path("reconstructions.png")
    """The picture: .png, .pdf or .svg."""
    frames: int = 10_000
    """Frames of a random policy to take the costs over."""
    seed: int = 0
    """Makes the games, others than those of any training."""
    device: DeviceName = AgentConfig.device
    """Where to compute: cpu or cuda."""
    env_kwargs: tuple[str, ...] = ()
    """Keywords for the environment: is_slippery=false size=8."""
    wrappers: Annotated[tuple[str, ...], arg(name="wrapper", metavar="MODULE:WRAPPER [...]")] = ()
    """Wrappers around each environment, the first one innermost."""
    json: bool = False
    """Print JSON."""


def run_vae_train(command: VaeTrain, given: Sequence[str]) -> int:
    """Train, and draw what came of it; `given` is the command line. Returns the exit status."""
    from rich.console import Console

    from mfec.callbacks import Stopped
    from mfec.experiments.vae import train_vaes

    console = Console()
    jobs = _jobs(command)
    try:
        train_vaes(jobs, device=command.device, resume=command.resume, console=console)
    except (Stopped, KeyboardInterrupt) as stopped:
        again = [argument for argument in given if argument != "--resume"]
        return say_how_to_resume(again, saved=isinstance(stopped, Stopped))
    for job in jobs:
        draw_vae(job, console)
    return 0


def _jobs(command: VaeTrain) -> list[VAEJob]:
    """One for each environment, below OUT where there are several."""
    from mfec.experiments.vae_directory import VAEJob

    if not command.envs:
        raise ValueError("name an environment to train on; `mfec envs` lists them")
    environment = EnvConfig(
        frame_stack=command.frame_stack,
        sticky_actions=command.sticky_actions,
        env_kwargs=command.env_kwargs,
        wrappers=command.wrappers,
    )
    envs = list(dict.fromkeys(map(canonical_name, command.envs)))
    below = {env: Path(folder_of(env)) if len(envs) > 1 else Path() for env in envs}
    out = command.out or Path("runs", "vae", "" if len(envs) > 1 else folder_of(envs[0]))
    return [
        VAEJob(env, out / place, command.recipe, environment, command.seed, command.data and command.data / place)
        for env, place in below.items()
    ]


def draw_vae(job: VAEJob, console: Console) -> None:
    """Draw what the training of a VAE cost, and frames that it was not trained on beside what it makes of them."""
    from mfec.embeddings import VAE
    from mfec.experiments.frames import held_out_frames
    from mfec.experiments.vae_directory import VAEDirectory
    from mfec.figures.vae import draw_costs, draw_reconstructions

    directory = VAEDirectory(job.out)
    frames = held_out_frames(job.env, job.environment, SHOWN_FRAMES, job.seed)
    pictures = [
        draw_costs(directory.costs(), directory.loss_picture),
        draw_reconstructions(VAE.load(job.out), frames, directory.reconstructions),
    ]
    for picture in pictures:
        console.print(f"picture: {picture}", highlight=False, markup=False, soft_wrap=True)


def run_vae_show(command: VaeShow) -> int:
    """Print the costs of a VAE, and draw; returns the exit status."""
    from mfec.device import refuse_missing
    from mfec.embeddings import VAE
    from mfec.embeddings.vae.files import encoder_name
    from mfec.experiments.frames import held_out_frames, observation_space
    from mfec.figures.pictures import check_kind
    from mfec.figures.vae import draw_reconstructions

    if command.frames < 1:
        raise ValueError(f"frames must be at least 1, not {command.frames}")
    check_kind(command.out)
    refuse_missing(command.device)
    env = canonical_name(command.env)
    vae = VAE.load(encoder_name(command.vae) if command.vae else env, device=command.device)
    own = EnvConfig(env_kwargs=command.env_kwargs, wrappers=command.wrappers)
    environment = _environment_of(env, vae, own)
    space = observation_space(env, environment)
    vae.check_fits(space.dtype, space.shape)
    frames = held_out_frames(env, environment, command.frames, command.seed)
    correction, communication = vae.costs(frames)
    picture = draw_reconstructions(vae, frames, command.out)
    if command.json:
        print(json.dumps({"frames": len(frames), "correction": correction, "communication": communication}))
        return 0
    print(f"held-out frames: {len(frames):,} of {env}, a random policy")
    print(f"correction cost: {correction:,.1f} nats, communication cost: {communication:,.1f} nats a frame")
    print(f"picture: {picture}")
    return 0


def _environment_of(env: str, vae: VAE, own: EnvConfig) -> EnvConfig:
    """Settings under which the environment may fit the encoder: an Atari game shows as many frames as it takes."""
    from mfec.envs.names import is_atari

    shape = vae.observation_shape
    stacked = is_atari(env) and len(shape) == 3 and not vae.architecture.colours_last
    return replace(own, frame_stack=shape[0]) if stacked else own
