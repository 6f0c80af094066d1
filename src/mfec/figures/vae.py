"""Pictures of a VAE: what its training cost, and originals beside what it makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mfec.embeddings import VAE
from mfec.figures.pictures import new_figure, save_figure

SHOWN = 8  # frames in a picture


def draw_costs(costs: dict[str, list[float]], out: Path) -> Path:
    """Both costs against the steps of a training."""
    figure = new_figure(6.4, 4.0)
    above, below = figure.subplots(2, 1, sharex=True)
    thousands = np.array(costs["step"]) / 1000.0
    for axes, name in ((above, "correction"), (below, "communication")):
        axes.plot(thousands, costs[name], marker="." if len(thousands) < 20 else "")  # one point has no line
        axes.set_ylabel(f"{name} cost,\nnats a frame")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    # The first thousand steps cost so much more than the rest that nothing else would be seen.
    late = np.array(costs["correction"])[len(thousands) // 50 :]
    if len(late) > 1:
        above.set_ylim(late.min() - 0.05 * np.ptp(late), late.max() + 0.05 * np.ptp(late))
    figure.align_ylabels()
    below.set_xlabel("thousands of steps")
    return save_figure(figure, out)


def draw_reconstructions(vae: VAE, frames: NDArray[np.uint8], out: Path) -> Path:
    """Some frames, and below each what the decoder makes of its message."""
    chosen = frames[np.linspace(0, len(frames) - 1, min(SHOWN, len(frames))).astype(int)]
    rows = {"frame": chosen / 255.0, "reconstruction": vae.reconstruct(chosen).clip(0.0, 1.0)}
    figure = new_figure(1.5 * len(chosen), 3.4)
    axes = figure.subplots(2, len(chosen), squeeze=False)
    for row, (label, pictures) in zip(axes, rows.items(), strict=True):
        row[0].set_ylabel(label)
        for place, picture in zip(row, pictures, strict=True):
            shown = picture if picture.ndim == 2 or vae.architecture.colours_last else picture[-1]
            place.imshow(shown, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
            place.set_xticks([])
            place.set_yticks([])
    return save_figure(figure, out)
