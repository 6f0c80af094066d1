"""Pictures of a VAE: its costs against the steps, and pictures of every kind beside what becomes of them."""

from __future__ import annotations

import matplotlib.image
import numpy as np
import pytest

from mfec.embeddings import VAE
from mfec.figures.vae import SHOWN, draw_costs, draw_reconstructions


@pytest.mark.parametrize("rows", [1, 2, 400])
@pytest.mark.filterwarnings("error")
def test_costs_are_drawn_against_steps(tmp_path, monkeypatch, rows):
    drawn = []
    plot = matplotlib.axes.Axes.plot
    monkeypatch.setattr(
        "matplotlib.axes.Axes.plot", lambda axes, x, y, **style: (drawn.append((x, y)), plot(axes, x, y, **style))[1]
    )
    steps = [1000.0 * (row + 1) for row in range(rows)]
    costs = {"step": steps, "correction": [-step for step in steps], "communication": [1.0] * rows, "seconds": steps}
    out = draw_costs(costs, tmp_path / "new" / "loss.png")
    assert min(matplotlib.image.imread(out).shape[:2]) > 100
    assert [(list(x), list(y)) for x, y in drawn] == [
        ([step / 1000 for step in steps], costs[name]) for name in ("correction", "communication")
    ]


@pytest.mark.parametrize("shape", [(60, 52), (3, 60, 52), (60, 52, 3)], ids=["grey", "several frames", "colours"])
@pytest.mark.parametrize("n", [1, 3, 20])
def test_pictures_are_drawn_above_what_becomes_of_them(make_encoder, tmp_path, monkeypatch, shape, n):
    drawn = []
    monkeypatch.setattr("matplotlib.axes.Axes.imshow", lambda axes, picture, **_: drawn.append(np.array(picture)))
    vae = VAE.load(make_encoder(tmp_path / "vae", shape=shape))
    frames = np.random.default_rng(0).integers(0, 256, (n, *shape), np.uint8)
    out = draw_reconstructions(vae, frames, tmp_path / "shown.png")
    assert out.stat().st_size > 0
    columns = min(n, SHOWN)
    assert len(drawn) == 2 * columns
    last = (lambda picture: picture[-1]) if shape == (3, 60, 52) else lambda picture: picture  # of several the newest
    assert np.array_equal(drawn[0], last(frames[0]) / 255.0)
    assert np.array_equal(drawn[columns], last(vae.reconstruct(frames[:1])[0]).clip(0.0, 1.0))
    assert np.array_equal(drawn[columns - 1], last(frames[-1]) / 255.0)
