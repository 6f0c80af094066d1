"""Settings of the environments, as options of the commands that take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from tyro.conf import arg

from mfec.config import EnvConfig


@dataclass(frozen=True)
class EnvOptions(EnvConfig):
    """Settings of the environments."""

    wrappers: Annotated[tuple[str, ...], arg(name="wrapper", metavar="MODULE:WRAPPER [...]")] = ()
    """Wrappers around each environment, the first one innermost: package.module:Wrapper, or a function that takes an
    environment and returns one."""

    @classmethod
    def of(cls, environment: EnvConfig) -> Self:
        """These settings, as options."""
        return cls(**vars(environment))

    @property
    def settings(self) -> EnvConfig:
        """Without the options' own names."""
        return EnvConfig(**vars(self))
