"""Learning curves: score against frames, mean and standard error over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfec.figures import ScoreName
from mfec.figures.lines import FigureError, count, curve_settings, refuse_repeated_seeds
from mfec.figures.pictures import check_kind, new_figure, save_figure
from mfec.figures.scores import SCORES, check_scored, displacement
from mfec.run_directory import RunDirectory
from mfec.statistics import FEWEST_SEEDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONG_LABEL = 40


@dataclass(frozen=True)
class Curve:
    """One line of the figure: all seeds of one setting."""

    label: str
    frames: NDArray[np.float64]  # (points,)
    mean: NDArray[np.float64]  # (points,)
    standard_error: NDArray[np.float64]  # (points,), 0 for a single seed
    each: NDArray[np.float64]  # (seeds, points)

    @property
    def seeds(self) -> int:
        """How many there are."""
        return len(self.each)

    @property
    def marker(self) -> str:
        """That of a point alone, which has no line."""
        return "." if len(self.frames) == 1 else ""


def learning_curves(runs: list[RunDirectory], *, score: ScoreName = "training") -> list[Curve]:
    """Curves of these runs, those that differ in nothing but the seed taken together; a seed that is there twice is an
    error.

    A run whose VAE was trained before it began is displaced by the frames of that training, as in the paper; one that
    trained its own has counted them.
    """
    groups: dict[str, list[RunDirectory]] = {}
    settings = {}
    for run in runs:
        own = curve_settings(run.read_config(), score=score)
        groups.setdefault(repr(own), []).append(run)
        settings[repr(own)] = own
    for group in groups.values():
        refuse_repeated_seeds(group)
    names = _labels(list(settings.values()))
    return [curve_of(label, group, score=score) for label, group in zip(names, groups.values(), strict=True)]


def draw_learning_curves(runs: list[RunDirectory], out: Path, *, score: ScoreName = "training") -> Path:
    """Draw the curves of these runs into a picture; its ending says which kind (png, pdf, svg)."""
    check_kind(out)
    curves = learning_curves(runs, score=score)
    # Too many names, or too long ones, do not lie among the curves.
    above = len(curves) > 2 or max(len(curve.label) for curve in curves) > LONG_LABEL
    figure = new_figure(6.4, 4.0 + (0.18 * len(curves) if above else 0.0))
    axes = figure.add_subplot()
    for curve in curves:
        label = f"{curve.label} ({count(curve.seeds, 'seed')})"
        (line,) = axes.plot(curve.frames / 1e6, curve.mean, label=label, marker=curve.marker)
        draw_spread(axes, curve, line.get_color())
    axes.set_xlabel("millions of frames")
    axes.set_ylabel(SCORES[score].words(runs).label(3.3))
    axes.set_xlim(left=0.0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if above:
        figure.legend(frameon=False, loc="outside upper left", fontsize="small")
    else:
        axes.legend(frameon=False, loc="upper left")
    return save_figure(figure, out)


def draw_spread(axes: Axes, curve: Curve, colour: Any) -> None:
    """What lies around a mean: its standard error as a band, or each seed as a thin line where they are too few."""
    millions = curve.frames / 1e6
    if curve.seeds >= FEWEST_SEEDS:
        low, high = curve.mean - curve.standard_error, curve.mean + curve.standard_error
        axes.fill_between(millions, low, high, color=colour, alpha=0.25, linewidth=0)
    elif curve.seeds > 1:
        axes.plot(millions, curve.each.T, color=colour, alpha=0.5, linewidth=0.6)


def curve_of(
    label: str, runs: Sequence[RunDirectory], *, until: float = np.inf, score: ScoreName = "training"
) -> Curve:
    """The curve of these seeds: as far as every one of them has come, or until that many frames.

    It begins where all of them have a score, and is that point alone where it would end before.
    """
    for run in runs:
        check_scored(run, score)
    before = displacement(runs[0].read_config())
    frames, curves = SCORES[score].curve(runs, until - before)
    if not len(frames):
        raise FigureError(f"{', '.join(str(run.path) for run in runs)} have no evaluation after the same frames")
    error = np.zeros(len(frames))
    if len(runs) > 1:
        error = curves.std(axis=0, ddof=1) / np.sqrt(len(runs))
    if before:
        label += f", displaced by {before / 1e6:g}M frames"
    return Curve(label, frames + before, curves.mean(axis=0), error, curves)


def _labels(settings: list[dict[str, object]]) -> list[str]:
    """For each setting the environment's name, and whatever tells it apart from the others."""
    encoders = {str(own.get("vae", "")) for own in settings}
    if len({Path(encoder).name for encoder in encoders}) == len(encoders):  # their folders alone tell them apart
        settings = [{**own, "vae": Path(str(own["vae"])).name} if "vae" in own else own for own in settings]
    values: dict[str, set[str]] = {}  # of each setting, in the algorithms that have it
    for own in settings:
        for name, value in own.items():
            values.setdefault(name, set()).add(str(value))
    differing = [name for name in values if name != "env" and len(values[name]) > 1]
    differing.sort(key=lambda name: name != "algorithm")  # which comes first
    return [
        ", ".join([str(own["env"]), *(f"{name} {own[name]}" for name in differing if _tells(name, own))])
        for own in settings
    ]


def _tells(name: str, own: dict[str, object]) -> bool:
    """Whether a setting says something: a game with its own encoder is the usual thing."""
    return name in own and own[name] != "" and not (name == "vae" and own["vae"] == own["env"])
