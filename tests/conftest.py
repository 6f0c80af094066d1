"""The light part of the suite, encoders that were never trained, a browser, and property tests without a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder
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

# Left out of the light part whole: the import alone needs torch, each test is a run in processes or a server, or the
# file plays, draws or packs for long beside what is at the heart: the memory, the agent, the games, the environments.
HEAVY = (
    "algorithms/baselines",
    "device",
    "embeddings/vae",
    "envs/labyrinth/test_sight.py",
    "envs/test_every_frame.py",
    "envs/test_random_play.py",
    "experiments",
    "figures",
    "inspector",
    "memory/neighbours/test_cuda.py",
    "test_package.py",
)
NEEDS = {"browser": "browser", "encoder": "torch", "make_encoder": "torch", "one_thread": "torch"}  # fixture to mark


class WithoutTorch(MetaPathFinder):
    """Finds no torch. (SciPy stumbles over the shorter way, None among the modules.)"""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "torch":
            raise ModuleNotFoundError("the light part does without torch: mark the test `torch`", name="torch")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--light`: what `make check` runs."""
    parser.addoption("--light", action="store_true", help="leave out what is slow or needs torch or a browser")


def pytest_configure(config: pytest.Config) -> None:
    """In the light part an import of torch is an error, so that it stays light."""
    if config.getoption("--light"):
        sys.meta_path.insert(0, WithoutTorch())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave heavy folders and files out of the light part."""
    tests = Path(__file__).parent
    left_out = config.getoption("--light") and any(collection_path.is_relative_to(tests / path) for path in HEAVY)
    return True if left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures they use, and keep the light ones where only those are wanted."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in NEEDS:
                item.add_marker(NEEDS[fixture])
    if config.getoption("--light"):
        heavy = {item for item in items if any(map(item.get_closest_marker, ("slow", "torch", "browser")))}
        config.hook.pytest_deselected(items=[item for item in items if item in heavy])
        items[:] = [item for item in items if item not in heavy]


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
    """Chromium without a window.

    Not for a whole session: as long as it is there, its event loop counts as the running one, and no other can run.
    """
    with launched() as started:
        yield started
