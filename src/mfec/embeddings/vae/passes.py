"""One forward and backward pass of a VAE on a GPU: convolutions by our own kernels, the layers between by autograd."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton
from torch import Tensor
from torch.nn import functional

from mfec.embeddings.vae import kernels
from mfec.embeddings.vae.architecture import KERNELS, Architecture
from mfec.embeddings.vae.networks import SMALLEST_STD, Decoder, Encoder, communication_cost, draw_messages
from mfec.embeddings.vae.parameters import Parameters

# Blocks and stages below are the fastest of eight for each layer on an H200, where all kernels of a pass take 0.33 ms.
PROGRAMS = 512  # that share the work on a gradient of weights


def supports(shape: Architecture) -> bool:
    """Whether the kernels can train this VAE: grey single frames, and maps by powers of two from 16."""
    return shape.picture_shape[0] == 1 and all(c >= 16 and c & (c - 1) == 0 for c in shape.channels)


@dataclass(frozen=True)
class _Layer:
    """A convolution or a reverse one: a big map, a small map, and what lies between them (see `kernels`)."""

    size: int
    cb: int
    cs: int
    big: tuple[int, int]
    small: tuple[int, int]
    weight: Tensor  # (size, size, cb, cs), in the type of maps
    bias: Tensor
    weight_gradient: Tensor  # float32, like the weight
    bias_gradient: Tensor

    def sizes(self) -> dict[str, int]:
        return {
            "HEIGHT": self.big[0], "WIDTH": self.big[1], "ROWS": self.small[0], "COLUMNS": self.small[1],
            "CB": self.cb, "CS": self.cs, "SIZE": self.size,
        }  # fmt: skip


class Passes:
    """Gradients of both costs of a minibatch.

    Maps and products are bfloat16 on a GPU, sums and everything between the convolutions float32.
    """

    def __init__(
        self, shape: Architecture, encoder: Encoder, decoder: Decoder, parameters: Parameters, minibatch: int
    ) -> None:
        self._encoder, self._decoder, self._parameters, self._n = encoder, decoder, parameters, minibatch
        on_gpu = parameters.values.device.type == "cuda"
        self._rounded = parameters.values.to(torch.bfloat16 if on_gpu else torch.float32)
        sizes, channels = shape.sizes, (1, *shape.channels)
        outputs = shape.channels[::-1]
        inputs = (outputs[0], *outputs[:-1])
        self._down = [
            self._layer(f"encoder.convolutions.{i}", KERNELS[i], channels[i], channels[i + 1], sizes[i], sizes[i + 1])
            for i in range(4)
        ]
        self._up = [
            self._layer(
                f"decoder.reverse_convolutions.{i}", KERNELS[3 - i], outputs[i], inputs[i], sizes[3 - i], sizes[4 - i]
            )
            for i in range(4)
        ]
        self._between = [name for name in parameters.named if name.split(".")[1] in ("hidden", "posterior", "maps")]

    def _layer(self, name: str, size: int, cb: int, cs: int, big: tuple[int, int], small: tuple[int, int]) -> _Layer:
        own = self._parameters
        return _Layer(
            size, cb, cs, big, small,
            own.part(self._rounded, f"{name}.weight"), own.part(own.values, f"{name}.bias"),
            own.part(own.gradients, f"{name}.weight"), own.part(own.gradients, f"{name}.bias"),
        )  # fmt: skip

    def __call__(self, frames: Tensor, places: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Mean costs, correction and communication, of the frames at `places`; sets the gradients of all parameters."""
        self._rounded.copy_(self._parameters.values)
        maps = [frames]
        for layer in self._down:
            maps.append(self._convolve(layer, maps[-1], places if layer is self._down[0] else None))
        features = maps[-1].permute(0, 3, 1, 2).flatten(1).float().requires_grad_()
        posterior = self._encoder.posterior(functional.relu(self._encoder.hidden(features)))
        messages = draw_messages(posterior, noise)
        started = functional.relu(self._decoder.maps(functional.relu(self._decoder.hidden(messages))))
        communication = communication_cost(posterior).mean()
        grown = [self._to_maps(started.detach(), self._up[0])]
        for layer in self._up[:-1]:
            grown.append(self._convolve_reversely(layer, grown[-1]))
        correction, gradient = self._compare(self._up[-1], grown[-1], frames, places)

        for i in (3, 2, 1, 0):
            layer = self._up[i]
            self._weigh(layer, gradient, grown[i])
            gradient, bias_sums = self._back_through_reverse(layer, gradient, grown[i])
            if i:
                torch.sum(bias_sums, 0, out=self._up[i - 1].bias_gradient)
        of_started = gradient.permute(0, 3, 1, 2).flatten(1).float()
        between = [self._parameters.named[name] for name in self._between]
        of_features, *of_between = torch.autograd.grad(
            [started, communication], [features, *between], [of_started, torch.ones_like(communication)]
        )
        for name, value in zip(self._between, of_between, strict=True):
            self._parameters.part(self._parameters.gradients, name).copy_(value)
        gradient = self._to_maps(of_features * (features.detach() > 0.0), self._down[-1])
        torch.sum(gradient.view(-1, self._down[-1].cs), 0, dtype=torch.float32, out=self._down[-1].bias_gradient)
        for i in (3, 2, 1, 0):
            layer = self._down[i]
            self._weigh(layer, maps[i], gradient, places if i == 0 else None)
            if i:
                gradient, bias_sums = self._back_through(layer, gradient, maps[i])
                torch.sum(bias_sums, 0, out=self._down[i - 1].bias_gradient)
        return correction, communication.detach()

    def _to_maps(self, flat: Tensor, layer: _Layer) -> Tensor:
        """Numbers in the order of torch's layers, (n, maps * rows * columns), as a map."""
        maps: Tensor = flat.unflatten(1, (layer.cs, *layer.small)).permute(0, 2, 3, 1)  # type: ignore[no-untyped-call]
        return maps.to(self._rounded.dtype).contiguous()

    # -- Kernels, with the room they need -----------------------------------------------------------------------------

    def _convolve(self, layer: _Layer, big: Tensor, places: Tensor | None) -> Tensor:
        out = self._rounded.new_empty((self._n, *layer.small, layer.cs))
        self._gather(layer, big, places, out, out, None)
        return out

    def _back_through_reverse(self, layer: _Layer, big: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        out = torch.empty_like(active)
        sums = out.new_empty((triton.cdiv(self._rows(layer), self._gather_block(layer)), layer.cs), dtype=torch.float32)
        self._gather(layer, big, None, active, out, sums)
        return out, sums

    def _gather(
        self, layer: _Layer, big: Tensor, places: Tensor | None, active: Tensor, out: Tensor, sums: Tensor | None
    ) -> None:
        rows, block = self._rows(layer), self._gather_block(layer)
        kernels.gather[(triton.cdiv(rows, block),)](
            big, out if places is None else places, layer.weight, layer.bias, active, out,
            out if sums is None else sums, rows,
            SCALE=1.0 if places is None else 1.0 / 255.0, **layer.sizes(),
            BACKWARD=sums is not None, FRAMES=places is not None, BLOCK=block,
            BLOCK_K=min(32 if block == 128 else 64, layer.size**2 * layer.cb), num_warps=4, num_stages=4,
        )  # fmt: skip

    def _convolve_reversely(self, layer: _Layer, small: Tensor) -> Tensor:
        out = self._rounded.new_empty((self._n, *layer.big, layer.cb))
        block, grid = self._spread_grid(layer)
        kernels.spread[grid](
            small, layer.weight, layer.bias, out, out, out, self._n, **layer.sizes(), BACKWARD=False, BLOCK=block,
            num_warps=4, num_stages=2,
        )  # fmt: skip
        return out

    def _back_through(self, layer: _Layer, small: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        out = torch.empty_like(active)
        block, grid = self._spread_grid(layer)
        sums = out.new_empty((grid[0] * 4, layer.cb), dtype=torch.float32)
        kernels.spread[grid](
            small, layer.weight, layer.bias, active, out, sums, self._n, **layer.sizes(), BACKWARD=True, BLOCK=block,
            num_warps=4, num_stages=2,
        )  # fmt: skip
        return out, sums

    def _compare(self, layer: _Layer, small: Tensor, frames: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """The correction cost, and its gradient before the last reverse convolution."""
        own = self._parameters
        out = self._rounded.new_empty((self._n, *layer.big, layer.cb))
        block, grid = self._spread_grid(layer)
        sums = out.new_empty((grid[0] * 4, 4, layer.cb), dtype=torch.float32)
        kernels.spread_and_compare[grid](
            small, layer.weight, layer.bias, own.part(own.values, "decoder.picture.weight"),
            own.part(own.values, "decoder.picture.bias"), frames, places, out, sums, self._n,
            math.log(SMALLEST_STD), **layer.sizes(), BLOCK=block, num_warps=4, num_stages=2,
        )  # fmt: skip
        added = sums.sum(0)
        own.part(own.gradients, "decoder.picture.weight").view(2, layer.cb).copy_(added[:2])
        layer.bias_gradient.copy_(added[2])
        own.part(own.gradients, "decoder.picture.bias").copy_(added[3, 1:3])
        return added[3, 0] / self._n, out

    def _weigh(self, layer: _Layer, big: Tensor, small: Tensor, places: Tensor | None = None) -> None:
        rows, inputs = self._rows(layer), layer.size**2 * layer.cb
        block, block_k = 64, min(64, inputs)
        blocks_k = triton.cdiv(inputs, block_k)
        splits = max(1, min(128, PROGRAMS // blocks_k, rows // (4 * block)))
        blocks = triton.cdiv(triton.cdiv(rows, splits), block)
        splits = triton.cdiv(rows, blocks * block)
        partial = small.new_empty((splits, *layer.weight_gradient.shape), dtype=torch.float32)
        kernels.weigh[(blocks_k, splits)](
            big, small if places is None else places, small, partial, rows,
            SCALE=1.0 if places is None else 1.0 / 255.0, **layer.sizes(), FRAMES=places is not None,
            BLOCKS=blocks, BLOCK=block, BLOCK_K=block_k, num_warps=4, num_stages=3,
        )  # fmt: skip
        torch.sum(partial, 0, out=layer.weight_gradient)

    def _rows(self, layer: _Layer) -> int:
        return self._n * layer.small[0] * layer.small[1]

    def _gather_block(self, layer: _Layer) -> int:
        return 128 if self._rows(layer) > 30_000 else 64

    def _spread_grid(self, layer: _Layer) -> tuple[int, tuple[int, int]]:
        rows = self._n * ((layer.big[0] + 1) // 2) * ((layer.big[1] + 1) // 2)
        block = 64 if layer.cs > 32 or rows < 30_000 else 128
        return block, (triton.cdiv(rows, block), 4)
