"""Encoders that were never trained, one thread for torch, a browser, and property tests without a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from .browser import launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MakeEncoder = Callable[..., Path]

# On a busy machine any example may take long, to draw or to run.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


@pytest.fixture(scope="session")
def make_encoder(tmp_path_factory: pytest.TempPathFactory) -> MakeEncoder:
    """Writes an encoder and its decoder into a directory; equal ones for equal shapes and seeds.

    It tells observations apart like a trained one, and is made in no time.
    """
    from mfec.config import VAEConfig
    from mfec.embeddings.vae.files import write_network
    from mfec.embeddings.vae.training import Trainer

    recipe = VAEConfig(minibatch=1, channels=(4, 4, 4, 4), hidden=16, latents=4)

    def make(out: Path | None = None, *, shape: tuple[int, ...] = (84, 84), seed: int = 0) -> Path:
        out = out or tmp_path_factory.mktemp("encoder")
        out.mkdir(parents=True, exist_ok=True)
        trainer = Trainer(np.zeros((1, *shape), np.uint8), recipe, seed=seed)
        for part, tensors in trainer.networks().items():
            write_network(out, part, tensors, trainer.architecture)
        return out

    return make


@pytest.fixture(scope="session")
def encoder(make_encoder: MakeEncoder) -> Path:
    """A directory with an encoder of Atari frames."""
    return make_encoder()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """torch with one thread: on few cores more of them wait for each other, or hold up other processes."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium without a window.

    Not for a whole session: as long as it is there, its event loop counts as the running one, and no other can run.
    """
    with launched() as started:
        yield started
