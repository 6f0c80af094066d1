"""RMSProp as DQN was published with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class CentredRMSprop(torch.optim.Optimizer):
    """Centred RMSProp with its smallest variance inside the root (Mnih et al., 2015).

    There the gradient is the sum over a minibatch of 32 and the smallest variance 0.01. Here, as in
    Stable-Baselines3, it is the mean: a thirty-second of it, so the same step needs 0.01 / 32^2, about 1e-5. (Torch's
    own RMSprop adds its epsilon outside the root, which is another step where gradients are small.)
    """

    def __init__(
        self, params: Any, lr: float = 0.00025, *, decay: float = 0.95, smallest: float = 0.01 / 32**2
    ) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "smallest": smallest})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Make one step."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            gradients = [parameter.grad for parameter in parameters]
            means, squares = [], []
            for parameter in parameters:
                state = self.state[parameter]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                means.append(state["mean"])
                squares.append(state["square"])
            # All parameters in a few calls: one by one they cost more than the network.
            decay = group["decay"]
            torch._foreach_lerp_(means, gradients, 1.0 - decay)
            torch._foreach_mul_(squares, decay)
            torch._foreach_addcmul_(squares, gradients, gradients, 1.0 - decay)
            deviations = torch._foreach_addcmul(squares, means, means, -1.0)
            torch._foreach_add_(deviations, group["smallest"])
            torch._foreach_sqrt_(deviations)
            torch._foreach_addcdiv_(parameters, gradients, deviations, -group["lr"])
