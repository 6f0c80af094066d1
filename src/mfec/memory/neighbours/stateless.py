"""What an index without a state of its own has to say: nothing."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


class StatelessIndex:
    """The part of an exact index that an approximate one would fill: the entries say everything."""

    approximate = False

    def asked(self, states: Any, *, learning: bool = True) -> None:
        """States are looked up: nothing to learn from that."""

    def settings(self) -> dict[str, Any]:
        """Nothing: the entries say everything."""
        return {}

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Nothing: the entries say everything."""
        return {}
